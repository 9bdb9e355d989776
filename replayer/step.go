package replayer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/replayer/internal/lease"
)

// Step is a step of a Ramp that has ended.
type Step struct {
	End     int       `json:"end"`  // messages of the job that were sent, left out or not sent by then
	Sent    int       `json:"sent"` // in this step, as the others
	Handled int       `json:"handled"`
	Failed  int       `json:"failed,omitempty"`  // with messages that will be tried again, and those that could not be sent
	Silent  int       `json:"silent,omitempty"`  // that did not come back from consumers that report failures alone
	Problem string    `json:"problem,omitempty"` // why the job was paused; "": the next step followed
	Judged  time.Time `json:"judged"`
}

// OpenStep is where the present step of a job has begun.
type OpenStep struct {
	Since   int64 `json:"since,omitempty"`  // sequence of the last `replayed` event before it
	Sent    int   `json:"sent,omitempty"`   // by the job before, as Failed
	Failed  int   `json:"failed,omitempty"` // without erased messages
	Erased  int   `json:"erased,omitempty"`
	Stopped bool  `json:"stopped,omitempty"` // the ramp has paused the job, so that it begins with the resume
}

// StoppedError is returned for a job that its Ramp has paused. A resume accepts the outcomes until then,
// and goes on with the next step.
type StoppedError struct {
	Why string

	step Step
}

func (e *StoppedError) Error() string { return e.Why }

// errStepSent ends the execution of a job at the end of a step.
var errStepSent = errors.New("the step was sent")

// runSteps sends the messages of a job with execute, and judges each step before the next one.
func runSteps(ctx context.Context, r *Replayer, l *lease.Lease, job *Job, execute func() error) error {
	for {
		if end := job.StepEnd(); end == 0 || job.Processed() < end {
			if err := execute(); !errors.Is(err, errStepSent) {
				return err
			}
		}
		if err := judgeStep(ctx, r, l, job); err != nil {
			return err
		}
	}
}

// StepEnd returns the number of messages at which the present step ends; 0: with the job. Erased messages
// make it longer, since a step without messages that were sent tells nothing.
func (j Job) StepEnd() int {
	end := j.Ramp.endAfter(j.stepBegin(), j.Total)
	if end == 0 {
		return 0
	}
	return end + max(0, j.Erased-j.Open.Erased)
}

func (j Job) stepBegin() int {
	if len(j.Steps) == 0 {
		return 0
	}
	return j.Steps[len(j.Steps)-1].End
}

// judgeStep waits for the outcomes of the step that was sent, and notes it in the job. The error is a
// *StoppedError if the next step must not follow.
func judgeStep(ctx context.Context, r *Replayer, l *lease.Lease, job *Job) error {
	sent, judge := *job, newJudge(r, job) // a copy, since heartbeats save the job concurrently
	var step Step
	err := r.withHeartbeat(ctx, l.Lost(), job, func(ctx context.Context) (err error) {
		step, err = judge.await(ctx, sent)
		return err
	})
	switch {
	case err != nil:
		return err
	case step.Problem != "":
		return &StoppedError{step.Problem, step}
	}
	job.endStep(step, judge.last)
	return r.saveHeartbeat(ctx, job)
}

// unsent returns the number of messages of the present step that could not be sent, without erased ones, which tell
// nothing of the target.
func (j Job) unsent() int { return max(0, j.Failed-j.Erased-j.Open.Failed) }

// endStep notes that the present step ends here. last is the sequence of its last `replayed` event.
func (j *Job) endStep(step Step, last int64) {
	step.End, step.Judged = j.Processed(), time.Now().UTC()
	j.Steps = append(slices.Clip(j.Steps), step)
	j.Open = OpenStep{Since: max(last, j.Open.Since), Sent: j.Sent, Failed: j.Failed - j.Erased, Erased: j.Erased, Stopped: step.Problem != ""}
}

// stop pauses the job because of the outcomes of its present step.
func (j *Job) stop(why *StoppedError) *StoppedError {
	why.step.Sent, why.step.Problem = max(0, j.Sent-j.Open.Sent), why.Why
	j.endStep(why.step, 0)
	j.State, j.Problem = Paused, fmt.Sprintf("stopped after the first %s: %s", wording.Plural(j.Processed(), "message"), why.Why)
	return &StoppedError{Why: j.Problem}
}

// reopen begins a new step after one that has paused the job: the outcomes so far are accepted, so their `replayed`
// events have to be stored before the events of the new step.
func reopen(ctx context.Context, r *Replayer, l *lease.Lease, job *Job) error {
	if !job.Open.Stopped {
		return nil
	}
	stopped := *job // a copy, since heartbeats save the job concurrently
	var highest int64
	err := r.withHeartbeat(ctx, l.Lost(), job, func(ctx context.Context) (err error) {
		if err := r.awaitRecord(ctx, l, stopped); err != nil {
			return fmt.Errorf("outcomes of the step that was stopped cannot be told from those of the next one: %w", err)
		}
		if err := r.cfg.Store.Refresh(ctx); err != nil {
			return err
		}
		highest, err = r.cfg.Store.HighestSequence(ctx)
		return err
	})
	if err != nil {
		return err
	}
	job.Open = OpenStep{Since: highest, Sent: job.Sent, Failed: job.Failed - job.Erased, Erased: job.Erased}
	return r.saveHeartbeat(ctx, job)
}

// judge reads the outcomes of the present step of a job.
type judge struct {
	replayer *Replayer
	ramp     Ramp
	job      history.Job
	size     int   // messages of the step
	last     int64 // sequence of its last `replayed` event
}

func newJudge(r *Replayer, job *Job) *judge {
	return &judge{
		replayer: r, ramp: job.Ramp, size: cmp.Or(job.StepEnd(), job.Total) - job.stepBegin(),
		job: history.Job{ID: job.ID, UpTo: job.UpTo, ToOrigin: job.Target.Kind == ToOrigin, Since: job.Open.Since},
	}
}

// Pauses between two reads of outcomes. A read takes about 60 µs for each message of the step.
const (
	firstRead = 50 * time.Millisecond
	nextReads = time.Second
	readShare = 10 // a pause is at least as many times as long as the read before
)

// read returns the outcomes of the step, and why the job must stop because of them; "": it need not.
func (j *judge) read(ctx context.Context, unsent int) (found history.JobOutcomes, problem string, err error) {
	found, err = history.OutcomesOfJob(ctx, j.replayer.cfg.Store, j.job)
	j.last = max(j.last, found.Last)
	for _, limit := range j.ramp.StopIf {
		failed, of := found.Failed+unsent, ""
		if limit.Class != "" {
			failed, of = found.Classes[limit.Class], " with the class "+limit.Class
		}
		if !limit.isAbove(failed, j.size) {
			continue
		}
		problem = fmt.Sprintf("%s: %d of %s failed%s", limit, failed, wording.Plural(j.size, "message"), of)
		if len(found.Problems) > 0 {
			problem += ", such as: " + wording.OneLine(found.Problems[0])
		}
		return found, problem, err
	}
	return found, "", err
}

// await waits for the outcomes of a step that was sent.
func (j *judge) await(ctx context.Context, job Job) (Step, error) {
	step := Step{Sent: max(0, job.Sent-job.Open.Sent)}
	unsent := job.unsent()
	j.size = step.Sent + unsent
	deadline := time.Now().Add(j.ramp.WaitOrDefault())
	for pause := firstRead; ; pause = min(2*pause, nextReads) {
		began := time.Now()
		found, problem, err := j.read(ctx, unsent)
		if err != nil {
			return step, err
		}
		step.Handled, step.Failed, step.Problem = found.Handled, found.Failed+unsent, problem
		switch {
		case problem != "", found.Handled+found.Failed >= step.Sent:
			return step, nil
		case !time.Now().Before(deadline):
			return j.judgeSilence(ctx, step, found)
		}
		if err := backoff.Sleep(ctx, max(min(pause, time.Until(deadline)), readShare*time.Since(began))); err != nil {
			return step, err
		}
	}
}

// judgeSilence judges a step of which messages have no outcome when the time for it is over. Messages of
// consumers that do not report are good if such messages have come back before when they failed.
func (j *judge) judgeSilence(ctx context.Context, step Step, found history.JobOutcomes) (Step, error) {
	pending, waited := step.Sent-found.Handled-found.Failed, wording.Duration(j.ramp.WaitOrDefault())
	step.Problem = fmt.Sprintf("cannot be judged: %d of %s have no outcome after %s", pending, wording.Plural(j.size, "message"), waited)
	for to, messages := range found.Silent {
		reports, returns, err := history.ReturnsOf(ctx, j.replayer.cfg.Store, to)
		switch {
		case err != nil:
			return step, fmt.Errorf("looking up whether consumers report: %w", err)
		case reports || slices.Contains(j.replayer.cfg.RouteQueues, to.Queue):
			return step, nil
		case !returns:
			step.Problem = fmt.Sprintf("cannot be judged: no consumer of %s has ever reported about a message, and none has come back from there",
				Route{Queue: to.Queue, Exchange: to.Exchange, RoutingKey: to.RoutingKey})
			return step, nil
		}
		step.Silent += messages
	}
	if step.Silent == pending {
		step.Problem = ""
	}
	return step, nil
}

// judgeWhileSending stops the run when the outcomes of its step are above a limit, whatever the rest of
// the step brings.
func (run *run) judgeWhileSending(ctx context.Context) {
	j := newJudge(run.replayer, &run.initial)
	for pause := nextReads; backoff.Sleep(ctx, pause) == nil; {
		began := time.Now()
		unsent := run.initial.unsent() + int(run.unsent.Load())
		found, problem, err := j.read(ctx, unsent) // the next read, or the end of the step, has the same error
		if err == nil && problem != "" {
			run.stopSending(&StoppedError{problem, Step{Handled: found.Handled, Failed: found.Failed + unsent}})
			return
		}
		pause = max(nextReads, readShare*time.Since(began))
	}
}
