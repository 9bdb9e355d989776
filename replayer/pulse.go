package replayer

import (
	"context"
	"errors"
	"sync"
	"time"
)

// alive does what may take long while a run sends nothing, and meanwhile saves
// the job again and again: whoever looks sees that it runs, and whoever cancels
// it is heard. do ends with that and when lost, which may be nil, is closed, and leaves
// the job alone.
func (r *Replayer) alive(ctx context.Context, lost <-chan struct{}, job *Job, do func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{})
	var pulse sync.WaitGroup
	pulse.Go(func() { stop(r.pulse(ctx, lost, job, done)) })
	err := do(ctx)
	close(done)
	pulse.Wait()
	if why := context.Cause(ctx); !errors.Is(why, errDone) {
		return why
	}
	return err
}

// errDone ends a pulse whose job is alive and well.
var errDone = errors.New("done")

// pulse saves the job until it is done, and says what else has ended it.
func (r *Replayer) pulse(ctx context.Context, lost <-chan struct{}, job *Job, done <-chan struct{}) error {
	ticker := time.NewTicker(saveOften)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return errDone
		case <-lost:
			return errLost
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if err := r.beat(ctx, job); err != nil {
				return err
			}
		}
	}
}

// beat minds only what others have done to the job: a store that is away is told
// by whoever reads from it.
func (r *Replayer) beat(ctx context.Context, job *Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime) // an answer that nobody waits for may have saved it
	defer cancel()
	err := r.save(ctx, job)
	var over *TakenOverError
	if errors.As(err, &over) {
		return r.overruled(ctx, job, over)
	}
	return nil
}

// overruled finds out what another has done to a job: nil is nothing that ends it.
func (r *Replayer) overruled(ctx context.Context, job *Job, over *TakenOverError) error {
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
