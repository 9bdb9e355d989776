package replayer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/exclusive"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/replayer/internal/lease"
)

// RunOptions configure one run of a job. The zero value runs it to its end.
type RunOptions struct {
	Expected  *Job      // the job that the operator confirmed: Run refuses another stored one; nil: not compared
	StopAfter int       // number of messages after which the job pauses; 0: it does not. For a job ByVersion Run returns ErrPartsByVersion
	Progress  func(Job) // called after each message, never concurrently; may be nil
}

const saveTimeout = 30 * time.Second // of the last save of a run

var (
	errCancelled = errors.New("the job was cancelled")
	errStopAfter = errors.New(CanarySent)
)

// CanarySent is the problem of a job that was paused by RunOptions.StopAfter.
const CanarySent = "the canary was sent: resume the job to send the rest"

// Run sends the remaining messages of a job in the order of their sequences. A message
// that the broker returns or refuses counts as failed, and the job continues. The
// error is a *BusyError while another process runs the job.
//
// Run pauses the job when ctx ends, after outstanding messages are confirmed, and
// waits for the broker when the connection is lost. It returns the job as saved last,
// whose state reports how it ended, and the error that stopped it.
func (r *Replayer) Run(ctx context.Context, id string, o RunOptions) (Job, error) {
	var job Job
	r = r.withRetries(storeTimeout)
	runner := r.cfg.NewID()
	for idle := 0; ; {
		l, err := r.awaitConnection(ctx, id, &job)
		if err != nil {
			return r.finish(ctx, job, err)
		}
		before := job.Sent
		ran, err := r.runOn(ctx, l, id, runner, job.ID != "", o)
		if ran.ID != "" {
			job = ran
		}
		closed := l.Close()
		if !errors.Is(err, exclusive.ErrLost) {
			return job, errors.Join(err, closed)
		}
		if idle++; job.Sent > before {
			idle = 0
		}
		if idle == maxLosses {
			return r.finish(ctx, job, fmt.Errorf("%w %d times in a row before any message was confirmed", exclusive.ErrLost, idle))
		}
	}
}

// awaitConnection opens the first connection of a run, for which job is zero, or
// the next one after a loss. While it waits the job is saved as running, with the
// reason for waiting.
func (r *Replayer) awaitConnection(ctx context.Context, id string, job *Job) (l *lease.Lease, err error) {
	switch {
	case job.ID == "":
		return r.connect(ctx, id, connectTimeout)
	case job.State == Cancelled:
		return nil, errCancelled
	}
	runner := job.Runner // a copy, since heartbeats save the job concurrently
	job.Problem = "waiting for the broker, to which the connection was lost"
	err = r.withHeartbeat(ctx, nil, job, func(ctx context.Context) error {
		l, err = r.reconnect(ctx, id, runner)
		return err
	})
	if err != nil && l != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, err
}

// reconnect opens a connection after a loss. The queue of the job may be held by the
// lost connection until the broker detects its end, or by another runner.
func (r *Replayer) reconnect(ctx context.Context, id, runner string) (*lease.Lease, error) {
	var busy *BusyError
	for deadline := r.now().Add(reconnectTimeout); ; {
		l, err := r.connect(ctx, id, reconnectTimeout)
		if !errors.As(err, &busy) || r.now().After(deadline) {
			return l, err
		}
		latest, err := r.Job(ctx, id)
		if err == nil && latest.Runner != runner {
			err = &TakenOverError{id}
		}
		if err != nil {
			return nil, err
		}
	}
}

// maxLosses stops a job if the broker closes the connection on its next message each
// time.
const maxLosses = 5

// runOn runs a job on one connection. If it is not the first connection, another
// runner must not have run the job in the interval.
func (r *Replayer) runOn(ctx context.Context, l *lease.Lease, id, runner string, again bool, o RunOptions) (Job, error) {
	release, err := l.LockStart(ctx, r.cfg.Topology, id)
	if err != nil {
		return Job{}, err
	}
	job, err := storeread.Do(ctx, storeTimeout, func() (Job, error) { return r.claim(ctx, id, runner, again, o) })
	if err != nil {
		return job, errors.Join(err, release(ctx))
	}
	rivals, err := r.rivalsOf(ctx, l, &job)
	if err = errors.Join(err, release(ctx)); err == nil {
		err = reopen(ctx, r, l, &job)
	}
	if err == nil {
		err = runSteps(ctx, r, l, &job, func() error { return r.execute(ctx, l, &job, rivals, o) })
	}
	if errors.Is(err, exclusive.ErrLost) {
		return job, errors.Join(err, r.saveFinal(ctx, &job))
	}
	return r.finish(ctx, job, err)
}

// claim saves the runner that holds the queue in the job. It checks the document like
// a plan, since other programs may write to the store. It repeats a conflicting save,
// since the previous runner may save the job for the last time.
func (r *Replayer) claim(ctx context.Context, id, runner string, again bool, o RunOptions) (Job, error) {
	for tries := 0; ; tries++ {
		job, err := r.Job(ctx, id)
		switch {
		case err != nil:
			return job, err
		case again && job.Runner != runner:
			return job, &TakenOverError{id}
		case !again && o.Expected != nil && job.Runner != o.Expected.Runner: // it has run since, and may have been stopped on purpose
			return job, &TakenOverError{id}
		case job.Finished():
			return job, fmt.Errorf("job %s is %s: there is nothing left to do", id, job.State)
		case o.Expected != nil && !job.sameWork(*o.Expected):
			return job, fmt.Errorf("job %s was changed since it was shown: review it again", id)
		case o.StopAfter > 0 && job.Order == ByVersion:
			return job, ErrPartsByVersion
		}
		if err := job.check(r.cfg.Topology.Owns); err != nil {
			return job, fmt.Errorf("job %s cannot be run: %w", id, err)
		}
		job.Runner, job.State, job.Problem = runner, Running, ""
		job.RunStarted, job.RunBegin = r.now().UTC(), job.Processed()
		if job.Started.IsZero() {
			job.Started = job.RunStarted
		}
		err = r.save(ctx, &job)
		var over *TakenOverError
		switch {
		case err == nil:
			return job, nil
		case !errors.As(err, &over) || tries == maxClaims:
			return Job{}, err
		}
	}
}

const maxClaims = 5

// finish saves the state in which a run ended.
func (j *jobs) finish(ctx context.Context, job Job, why error) (Job, error) {
	var over *TakenOverError
	var stopped *StoppedError
	switch {
	case job.ID == "" || errors.As(why, &over): // saved by another process
		return job, why
	case errors.Is(why, errCancelled), job.State == Cancelled: // also if it stopped for another reason before
		why = fmt.Errorf("job %s was cancelled: %s", job.ID, job.Problem)
	case why == nil:
		job.State, job.Ended = Done, j.now().UTC()
	case errors.Is(why, errStopAfter):
		job.State, job.Problem, why = Paused, CanarySent, nil
	case errors.As(why, &stopped):
		why = job.stop(stopped)
	case ctx.Err() != nil:
		job.State, job.Problem = Paused, "stopped by its operator"
	default:
		job.State, job.Problem = Failed, why.Error()
	}
	return job, errors.Join(why, j.saveFinal(ctx, &job))
}

// saveFinal repeats the save for a while: without it the job looks interrupted.
func (j *jobs) saveFinal(ctx context.Context, job *Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	_, err := storeread.Do(ctx, saveTimeout, func() (struct{}, error) { return struct{}{}, j.saveOrAdopt(ctx, job) })
	return err
}

// saveOrAdopt saves a job even after a save whose response was lost, or a
// cancellation.
func (j *jobs) saveOrAdopt(ctx context.Context, job *Job) error {
	err := j.save(ctx, job)
	var over *TakenOverError
	if !errors.As(err, &over) {
		return err
	}
	latest, err := j.Job(ctx, job.ID)
	if err != nil || !job.adopt(latest) {
		return errors.Join(over, err)
	}
	return j.save(ctx, job)
}
