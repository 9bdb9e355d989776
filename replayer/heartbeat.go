package replayer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/exclusive"
)

// withHeartbeat runs do while saving the job every second, so that it is seen as
// running and a cancellation is noticed. The context of do ends with the job and when
// lost is closed; lost may be nil. do must not change the job.
func (j *jobs) withHeartbeat(ctx context.Context, lost <-chan struct{}, job *Job, do func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{})
	var heartbeat sync.WaitGroup
	heartbeat.Go(func() { stop(j.heartbeat(ctx, lost, job, done)) })
	err := do(ctx)
	close(done)
	heartbeat.Wait()
	if why := context.Cause(ctx); !errors.Is(why, errFinished) {
		return why
	}
	return err
}

// errFinished ends the heartbeat of a job when do has returned.
var errFinished = errors.New("done")

// heartbeat saves the job every saveInterval until done is closed, and returns the
// reason of its end.
func (j *jobs) heartbeat(ctx context.Context, lost <-chan struct{}, job *Job, done <-chan struct{}) error {
	ticker := time.NewTicker(saveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return errFinished
		case <-lost:
			return exclusive.ErrLost
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if err := j.saveHeartbeat(ctx, job); err != nil {
				return err
			}
		}
	}
}

// saveHeartbeat ignores errors of the store, which the next read reports, but not
// changes by another process.
func (j *jobs) saveHeartbeat(ctx context.Context, job *Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout) // a save that is interrupted may still be stored
	defer cancel()
	err := j.save(ctx, job)
	var over *TakenOverError
	if errors.As(err, &over) {
		return j.reload(ctx, job, over)
	}
	return nil
}

// reload reads a job that another process has changed. It returns an error if the
// change ends the run.
func (j *jobs) reload(ctx context.Context, job *Job, over *TakenOverError) error {
	latest, err := j.Job(ctx, job.ID)
	switch {
	case err != nil: // the next save reads it again
		return nil
	case !job.adopt(latest):
		return over
	case job.State == Cancelled:
		return errCancelled
	}
	return nil
}
