package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/watershipmq/watership/internal/operation"

	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/replayer"
)

// execute runs the job of a plan. It returns the job up to its canaries if a person judges them.
func (r *replay) execute(ctx context.Context, jobs backend, plan replayPlan) (replayer.Job, error) {
	stopAfter := 0
	if r.steps.canary > 0 && r.steps.canary < plan.Matched && r.steps.ramp(r.yes) == nil {
		stopAfter = r.steps.canary
	}
	ran, err := runJob(r.Streams, replayer.Job{Total: plan.Matched}, func(progress func(replayer.Job)) (replayer.Job, error) {
		job, err := startReplay(ctx, jobs, plan, stopAfter)
		if err != nil {
			return replayer.Job{}, err
		}
		return jobs.Watch(ctx, job, stopAfter, progress)
	})
	var stopped *replayer.StoppedError
	switch {
	case ran.ID == "":
		return ran, err
	case errors.As(err, &stopped):
		outcomes, readErr := replays.GetOutcomes.Call(ctx, jobs, replays.JobInput{ID: ran.ID})
		if readErr == nil {
			printOutcomes(r.Out, outcomes.Body, ran)
		}
		return ran, reportJob(r.Streams, ran, err)
	case err == nil && r.steps.canary >= plan.Matched && ran.State == replayer.Done:
		return ran, errors.Join(reportJob(r.Streams, ran, nil), r.reportCanaries(ctx, jobs, ran))
	case err != nil || stopAfter == 0 || ran.State != replayer.Paused:
		return ran, reportJob(r.Streams, ran, err)
	}
	if err := r.confirmCanary(ctx, jobs, ran); err != nil {
		return ran, reportJob(r.Streams, ran, err)
	}
	return ran, resumeJob(ctx, r.Streams, jobs, ran)
}

// resumeJob runs the rest of the job that was shown, and reports how it ended. A job of which another
// number of messages is left is refused, and in this process one that was changed since.
func resumeJob(ctx context.Context, t terminal.Streams, jobs backend, job replayer.Job) error {
	in, left := replays.ResumeInput{ID: job.ID}, replays.Left(job)
	operation.Fill(&in.Body).Expect = &left
	resumed, err := replays.ResumeReplay.Call(ctx, jobs, in)
	if err != nil {
		return err
	}
	job.Updated, job.Failed = resumed.Body.Record.Updated, resumed.Body.Record.Failed
	ran, err := runJob(t, job, func(progress func(replayer.Job)) (replayer.Job, error) { return jobs.Watch(ctx, job, 0, progress) })
	return reportJob(t, ran, err)
}

// confirmCanary waits for the outcomes of the first messages of a job, and asks whether
// to go on.
func (r *replay) confirmCanary(ctx context.Context, jobs backend, job replayer.Job) error {
	if _, err := r.awaitOutcomes(ctx, jobs, job); err != nil {
		return err
	}
	first := job.Processed()
	goOn, err := r.Ask(ctx, fmt.Sprintf("Send the other %d?", job.Total-first))
	if err == nil && !goOn {
		err = fmt.Errorf("stopped after the first %s", wording.Plural(first, "message"))
	}
	return err
}

// reportCanaries waits for the outcomes of a job that has no more messages than canaries. It
// returns an error if any failed again.
func (r *replay) reportCanaries(ctx context.Context, jobs backend, job replayer.Job) error {
	if job.Sent == 0 {
		return nil
	}
	outcomes, err := r.awaitOutcomes(ctx, jobs, job)
	if err != nil {
		return err
	}
	if outcomes.Failed > 0 {
		return fmt.Errorf("%s failed again", wording.Plural(outcomes.Failed, "message"))
	}
	return nil
}

// awaitOutcomes waits for the outcomes of the canaries of a job, and prints them.
func (r *replay) awaitOutcomes(ctx context.Context, from backend, job replayer.Job) (replays.Outcomes, error) {
	fmt.Fprintf(r.Err, "waiting for the outcome, up to %s\n", wording.Duration(r.steps.outcomeWait))
	outcomes, err := replays.AwaitOutcomes(ctx, from, job, r.steps.outcomeWait)
	if err == nil {
		printOutcomes(r.Out, outcomes, job)
	}
	return outcomes, err
}

func printOutcomes(out io.Writer, outcomes replays.Outcomes, job replayer.Job) {
	unsent := ""
	if n := job.Processed() - job.Sent; n > 0 {
		unsent = fmt.Sprintf(", %d not sent", n)
	}
	first := "the first "
	if job.Finished() {
		first = ""
	}
	fmt.Fprintf(out, "of %s%s: %d handled, %d failed, %d not reported%s\n", first, wording.Plural(job.Processed(), "message"),
		outcomes.Handled, outcomes.Failed, job.Sent-outcomes.Handled-outcomes.Failed, unsent)
	for _, problem := range outcomes.Problems {
		fmt.Fprintf(out, "  %s\n", terminal.Cell(problem, 120))
	}
	if len(outcomes.NotReported) > 0 {
		fmt.Fprintf(out, "  no report yet from %s\n", terminal.Cell(strings.Join(outcomes.NotReported, ", "), 120))
	}
}

// runJob runs a job with a progress bar, and prints failures to send as they happen.
func runJob(t terminal.Streams, job replayer.Job, run func(progress func(replayer.Job)) (replayer.Job, error)) (replayer.Job, error) {
	bar := terminal.NewBar(t.Err, job.Total)
	bar.StartAt(job.Processed())
	failed := job.Failed
	defer bar.End()
	return run(func(now replayer.Job) {
		if now.Failed > failed {
			bar.End()
			fmt.Fprintf(t.Err, "not sent: %s\n", failureText(now.Latest))
			failed = now.Failed
		}
		bar.Show(now.Processed())
	})
}

func failureText(f replayer.Failure) string {
	if f.Message != "" {
		return fmt.Sprintf("message %s, event %s: %s", terminal.Cell(f.Message, 80), terminal.Cell(f.EventID, 0), terminal.Cell(f.Reason, 0))
	}
	return fmt.Sprintf("event %s: %s", terminal.Cell(f.EventID, 0), terminal.Cell(f.Reason, 0))
}

// reportJob prints how a run ended.
func reportJob(t terminal.Streams, job replayer.Job, err error) error {
	var busy *replayer.BusyError
	if errors.As(err, &busy) {
		return err
	}
	fmt.Fprintf(t.Out, "sent %d of %d, job %s\n", job.Sent, job.Total, terminal.Cell(job.ID, 0))
	if job.Skipped > 0 {
		fmt.Fprintf(t.Err, "%s left out: replayed by another job, handled or discarded since the plan\n", wording.Plural(job.Skipped, "message"))
	}
	if job.Filtered > 0 {
		fmt.Fprintf(t.Err, "%s left out by the transform\n", wording.Plural(job.Filtered, "message"))
	}
	var running *client.RunningError
	switch {
	case errors.As(err, &running):
		fmt.Fprintf(t.Err, "the job goes on in the server: see watership jobs show %s, or stop it with jobs cancel\n", terminal.Cell(job.ID, 0))
	case err != nil && !job.Finished():
		// Not part of the error: the error of an interruption is not printed.
		fmt.Fprintf(t.Err, "go on with: watership jobs resume %s\n", terminal.Cell(job.ID, 0))
	}
	switch {
	case err != nil:
		return err
	case job.Stopped > 0:
		return fmt.Errorf("%s left out after failures in their streams, and %d could not be sent: see watership jobs show %s",
			wording.Plural(job.Stopped, "message"), job.Failed, job.ID)
	case job.Failed > 0:
		return fmt.Errorf("%s could not be sent: see watership jobs show %s", wording.Plural(job.Failed, "message"), job.ID)
	}
	return nil
}
