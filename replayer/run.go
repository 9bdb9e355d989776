package replayer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RunOptions are about one run of a job. The zero value runs it to its end.
type RunOptions struct {
	Agreed    *Job      // what the job is to do; nil: what is kept. Where that is something else, nothing is run.
	StopAfter int       // pause the job after so many messages; 0: do not
	Progress  func(Job) // hears of each message, by one goroutine at a time; may be nil
}

const saveTimeout = 30 * time.Second // for the last save of a run

var (
	errCancelled = errors.New("the job was cancelled")
	errStopAfter = errors.New("paused as it was asked to")
)

// Run sends what is left of a job, in the order in which it was taken into the
// store. A message that the broker returns or refuses is counted and the job
// goes on. It fails with a *BusyError while somebody else runs the job.
//
// It pauses the job when ctx ends, after what is on its way has arrived, and
// waits for a broker that went away. The job that it returns is as it was saved
// last; its state tells how it ended. An error tells what stopped it.
func (r *Replayer) Run(ctx context.Context, id string, o RunOptions) (Job, error) {
	var job Job
	r = r.withRetries(storeTimeout)
	runner := r.cfg.NewID()
	for idle := 0; ; {
		l, err := r.connectOrReconnect(ctx, id, &job)
		if err != nil {
			return r.finish(ctx, job, err)
		}
		before := job.Sent
		ran, err := r.runOn(ctx, l, id, runner, job.ID != "", o)
		if ran.ID != "" {
			job = ran
		}
		closed := l.Close()
		if !errors.Is(err, errLost) {
			return job, errors.Join(err, closed)
		}
		if idle++; job.Sent > before {
			idle = 0
		}
		if idle == maxLosses {
			return r.finish(ctx, job, fmt.Errorf("%w %d times in a row before any message was confirmed", errLost, idle))
		}
	}
}

// connectOrReconnect makes the first connection of a run, where job is zero, or the one
// after a loss. Meanwhile the job is seen to run, and what it waits for.
func (r *Replayer) connectOrReconnect(ctx context.Context, id string, job *Job) (l *lease, err error) {
	if job.ID == "" {
		return r.connect(ctx, id, connectTimeout)
	}
	runner := job.Runner // meanwhile the job itself is being saved
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

// reconnect is after a loss: the queue of the job may be held by the connection
// that was lost, until the broker misses it, or by somebody else.
func (r *Replayer) reconnect(ctx context.Context, id, runner string) (*lease, error) {
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

// maxLosses ends a job whose next message the broker answers by closing the
// connection.
const maxLosses = 5

// runOn runs a job on one connection. If that is not the first one, nobody else
// may have run it in between.
func (r *Replayer) runOn(ctx context.Context, l *lease, id, runner string, again bool, o RunOptions) (Job, error) {
	release, err := r.lockStart(ctx, l, id)
	if err != nil {
		return Job{}, err
	}
	job, err := retry(ctx, storeTimeout, func() (Job, error) { return r.claim(ctx, id, runner, again, o.Agreed) })
	if err != nil {
		return job, errors.Join(err, release(ctx))
	}
	rivals, err := r.rivalsOf(ctx, l, job)
	if err = errors.Join(err, release(ctx)); err == nil {
		err = r.execute(ctx, l, &job, rivals, o)
	}
	if errors.Is(err, errLost) {
		return job, errors.Join(err, r.saveFinal(ctx, &job))
	}
	return r.finish(ctx, job, err)
}

// take enters a runner, who holds the queue, in the job. Its document is checked as
// a plan is: others may write to the store. Whoever ran it before may be about to
// save it for the last time.
func (r *Replayer) claim(ctx context.Context, id, runner string, again bool, agreed *Job) (Job, error) {
	for tries := 0; ; tries++ {
		job, err := r.Job(ctx, id)
		switch {
		case err != nil:
			return job, err
		case again && job.Runner != runner:
			return job, &TakenOverError{id}
		case job.Finished():
			return job, fmt.Errorf("job %s is %s: there is nothing left to do", id, job.State)
		case agreed != nil && !job.sameWork(*agreed):
			return job, fmt.Errorf("job %s was changed since it was shown: look again with `watership jobs show %[1]s`", id)
		}
		if err := job.check(r.cfg.Topology.Owns); err != nil {
			return job, fmt.Errorf("job %s cannot be run: %w", id, err)
		}
		job.Runner, job.State, job.Problem = runner, Running, ""
		if job.Started.IsZero() {
			job.Started = r.now().UTC()
		}
		err = r.save(ctx, &job)
		var over *TakenOverError
		if !errors.As(err, &over) || tries == maxClaims {
			return job, err
		}
	}
}

const maxClaims = 5

// finish saves how a run ended.
func (r *Replayer) finish(ctx context.Context, job Job, why error) (Job, error) {
	var over *TakenOverError
	switch {
	case job.ID == "" || errors.As(why, &over): // not ours to say
		return job, why
	case errors.Is(why, errCancelled):
		why = fmt.Errorf("job %s was cancelled: %s", job.ID, job.Problem)
	case why == nil:
		job.State, job.Ended = Done, r.now().UTC()
	case errors.Is(why, errStopAfter):
		job.State, job.Problem, why = Paused, errStopAfter.Error(), nil
	case ctx.Err() != nil:
		job.State, job.Problem = Paused, "stopped by whoever ran it"
	default:
		job.State, job.Problem = Failed, why.Error()
	}
	return job, errors.Join(why, r.saveFinal(ctx, &job))
}

// saveFinal tries for a while: without it the job looks interrupted.
func (r *Replayer) saveFinal(ctx context.Context, job *Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	_, err := retry(ctx, saveTimeout, func() (struct{}, error) { return struct{}{}, r.saveOrAdopt(ctx, job) })
	return err
}

// saveOrAdopt saves a job also where its own runner saved it before, without getting an
// answer, or where it was cancelled.
func (r *Replayer) saveOrAdopt(ctx context.Context, job *Job) error {
	err := r.save(ctx, job)
	var over *TakenOverError
	if !errors.As(err, &over) {
		return err
	}
	latest, err := r.Job(ctx, job.ID)
	if err != nil || !job.adopt(latest) {
		return errors.Join(over, err)
	}
	return r.save(ctx, job)
}
