package cli

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/internal/gctuning"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/replayer"
)

// carryOut runs a new job, the canaries first.
func (r *replay) carryOut(ctx context.Context, replays *replayer.Replayer, job replayer.Job) error {
	if r.canary > 0 && r.canary < job.Total {
		ran, err := runJob(ctx, r.Streams, replays, job, r.canary)
		if err != nil || ran.State != replayer.Paused {
			return reportJob(r.Streams, ran, err)
		}
		if err := r.observe(ctx, replays, ran); err != nil {
			return reportJob(r.Streams, ran, err)
		}
		job = ran
	}
	ran, err := runJob(ctx, r.Streams, replays, job, 0)
	return reportJob(r.Streams, ran, err)
}

// runJob runs the rest of a job with a progress bar, and prints failures to send as
// they happen.
func runJob(ctx context.Context, t terminal.Streams, replays *replayer.Replayer, job replayer.Job, stopAfter int) (replayer.Job, error) {
	gctuning.Apply(0)
	bar := terminal.NewBar(t.Err, job.Total)
	bar.StartAt(job.Sent + job.Failed + job.Skipped)
	failed := job.Failed
	ran, err := replays.Run(ctx, job.ID, replayer.RunOptions{StopAfter: stopAfter, Expected: &job, Progress: func(now replayer.Job) {
		if now.Failed > failed {
			bar.End()
			fmt.Fprintf(t.Err, "not sent: %s\n", failureText(now.Latest))
			failed = now.Failed
		}
		bar.Show(now.Sent + now.Failed + now.Skipped)
	}})
	bar.End()
	if ran.ID == "" {
		ran = job
	}
	return ran, err
}

func failureText(f replayer.Failure) string {
	if f.Message != "" {
		return fmt.Sprintf("message %s, event %s: %s", terminal.Cell(f.Message, 80), terminal.Cell(f.EventID, 0), terminal.Cell(f.Reason, 0))
	}
	return fmt.Sprintf("event %s: %s", terminal.Cell(f.EventID, 0), terminal.Cell(f.Reason, 0))
}

// reportJob prints how a run ended.
func reportJob(t terminal.Streams, job replayer.Job, err error) error {
	fmt.Fprintf(t.Out, "sent %d of %d, job %s\n", job.Sent, job.Total, terminal.Cell(job.ID, 0))
	if job.Skipped > 0 {
		fmt.Fprintf(t.Err, "%s left out: other jobs replayed them meanwhile\n", wording.Plural(job.Skipped, "message"))
	}
	if err != nil && !job.Finished() {
		// Not part of the error: the error of an interruption is not printed.
		fmt.Fprintf(t.Err, "go on with: watership jobs resume %s\n", terminal.Cell(job.ID, 0))
	}
	switch {
	case err != nil:
		return err
	case job.Failed > 0:
		return fmt.Errorf("%s could not be sent: see watership jobs show %s", wording.Plural(job.Failed, "message"), job.ID)
	}
	return nil
}
