package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/gctuning"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/replayer"
)

// execute runs a new job, the canaries first.
func (r *replay) execute(ctx context.Context, replays *replayer.Replayer, job replayer.Job) error {
	if r.canary > 0 && r.canary < job.Total {
		ran, err := runJob(ctx, r.Streams, replays, job, r.canary)
		if err != nil || ran.State != replayer.Paused {
			return reportJob(r.Streams, ran, err)
		}
		if err := r.confirmCanary(ctx, replays, ran); err != nil {
			return reportJob(r.Streams, ran, err)
		}
		job = ran
	}
	ran, err := runJob(ctx, r.Streams, replays, job, 0)
	return reportJob(r.Streams, ran, err)
}

// confirmCanary waits for the outcomes of the first messages of a job, and asks whether
// to go on. With --yes there is no question: each of them must have been sent and
// handled.
func (r *replay) confirmCanary(ctx context.Context, replays *replayer.Replayer, job replayer.Job) error {
	outcomes, err := app.AwaitOutcomes(ctx, replays, job, r.canaryWait)
	if err != nil {
		return err
	}
	first := job.Sent + job.Failed + job.Skipped
	r.printOutcomes(outcomes, job)
	goOn := outcomes.Handled == first
	if !r.yes {
		goOn, err = r.Ask(ctx, fmt.Sprintf("Send the other %d?", job.Total-first))
	}
	if err == nil && !goOn {
		err = fmt.Errorf("stopped after the first %s", wording.Plural(first, "message"))
	}
	return err
}

func (r *replay) printOutcomes(outcomes replayer.Outcomes, job replayer.Job) {
	unsent := ""
	if n := job.Failed + job.Skipped; n > 0 {
		unsent = fmt.Sprintf(", %d not sent", n)
	}
	fmt.Fprintf(r.Out, "of the first %s: %d handled, %d failed, %d not reported%s\n", wording.Plural(job.Sent+job.Failed+job.Skipped, "message"),
		outcomes.Handled, outcomes.Failed, job.Sent-outcomes.Handled-outcomes.Failed, unsent)
	for _, problem := range outcomes.Problems {
		fmt.Fprintf(r.Out, "  %s\n", terminal.Cell(problem, 120))
	}
	if len(outcomes.NotReported) > 0 {
		fmt.Fprintf(r.Out, "  no report yet from %s\n", terminal.Cell(strings.Join(outcomes.NotReported, ", "), 120))
	}
}

// runJob runs the rest of a job with a progress bar, and prints failures to send as
// they happen.
func runJob(ctx context.Context, t terminal.Streams, replays *replayer.Replayer, job replayer.Job, stopAfter int) (replayer.Job, error) {
	gctuning.Apply(gctuning.ReplayLimit)
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
		fmt.Fprintf(t.Err, "%s left out: other jobs have replayed them\n", wording.Plural(job.Skipped, "message"))
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
