package replayer

import (
	"context"
	"errors"
	"sync"
	"time"
)

// withHeartbeat does what may take long while a run sends nothing, and meanwhile saves
// the job again and again: whoever looks sees that it runs, and whoever cancels
// it is heard. do ends with that and when lost, which may be nil, is closed, and leaves
// the job alone.
func (r *Replayer) withHeartbeat(ctx context.Context, lost <-chan struct{}, job *Job, do func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{})
	var heartbeat sync.WaitGroup
	heartbeat.Go(func() { stop(r.heartbeat(ctx, lost, job, done)) })
	err := do(ctx)
	close(done)
	heartbeat.Wait()
	if why := context.Cause(ctx); !errors.Is(why, errFinished) {
		return why
	}
	return err
}

// errFinished ends a pulse whose job is alive and well.
var errFinished = errors.New("done")

// heartbeat saves the job until it is done, and says what else has ended it.
func (r *Replayer) heartbeat(ctx context.Context, lost <-chan struct{}, job *Job, done <-chan struct{}) error {
	ticker := time.NewTicker(saveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return errFinished
		case <-lost:
			return errLost
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if err := r.saveHeartbeat(ctx, job); err != nil {
				return err
			}
		}
	}
}

// saveHeartbeat minds only what others have done to the job: a store that is away is told
// by whoever reads from it.
func (r *Replayer) saveHeartbeat(ctx context.Context, job *Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout) // an answer that nobody waits for may have saved it
	defer cancel()
	err := r.save(ctx, job)
	var over *TakenOverError
	if errors.As(err, &over) {
		return r.reload(ctx, job, over)
	}
	return nil
}

// reload finds out what another has done to a job: nil is nothing that ends it.
func (r *Replayer) reload(ctx context.Context, job *Job, over *TakenOverError) error {
	latest, err := r.Job(ctx, job.ID)
	switch {
	case err != nil: // the next save asks again
		return nil
	case !job.adopt(latest):
		return over
	case job.State == Cancelled:
		return errCancelled
	}
	return nil
}
