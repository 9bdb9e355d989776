package projection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/subscription"
)

const (
	pollInterval = 200 * time.Millisecond // between two looks for a lease or a generation
	handOver     = 2 * pollInterval       // in which another process notices a free lease
	idleInterval = time.Second            // between two checkpoints without events
)

// Run handles the events until ctx ends, and returns nil then. One process at a time does;
// others wait, and go on after a switch-over or where a process has died. Run waits while the
// store or the database does not answer, while nothing was ever recorded of the source, and while
// the tables are of an earlier Config.Version. It ends with ErrSuperseded if they are of a later
// one, with an *EventError if an event fails for good and Config.Park is false, and with a
// *subscription.RemovedError if retention removed events before they were handled.
func (p *Projection) Run(ctx context.Context) error {
	c, err := p.connect(ctx)
	if err == nil {
		defer c.calls.Close()
		err = c.awaitSource(ctx)
	}
	for err == nil {
		var r *runner
		if r, err = c.awaitLive(ctx); err == nil {
			err = r.follow(ctx, nil)
			err = r.end(ctx, err)
		}
		if errors.Is(err, database.ErrLeaseLost) {
			c.cfg.Logger.Info("another process has changed the projection", "reason", err)
			err = nil
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// end releases the lease, and gives other processes the time to take over from a handler that hangs.
func (r *runner) end(ctx context.Context, err error) error {
	r.lease.Release(ctx)
	var hangs *hangError
	if !errors.As(err, &hangs) {
		return err
	}
	return backoff.Sleep(ctx, max(hangs.delay, handOver))
}

// awaitSource waits until the source is known, as it is from the start of its indexer on. The tables
// of a misspelt one would stay empty without a word.
func (c *connection) awaitSource(ctx context.Context) error {
	for warned := false; ; warned = true {
		isKnown, err := c.cfg.Reader.KnowsSource(ctx)
		if err == nil && isKnown {
			return nil
		}
		if err == nil {
			err = c.unknownSource()
		}
		if !warned {
			c.cfg.Logger.Warn("waiting for the source", "error", err)
		}
		if err := backoff.Sleep(ctx, idleInterval); err != nil {
			return err
		}
	}
}

// runner handles events into one generation, whose lease it holds.
type runner struct {
	*connection
	lease      *database.Lease
	generation Generation // as of the latest transaction
	saved      time.Time  // time of that transaction
}

// awaitLive waits until this process may handle events into the tables that are read, and
// creates them if none exists.
func (c *connection) awaitLive(ctx context.Context) (*runner, error) {
	waitsForVersion := false
	return await(ctx, c, func() (*runner, error) {
		live, err := c.liveGeneration(ctx)
		switch {
		case err != nil:
			return nil, err
		case live.Number == 0:
			_, err := c.createGeneration(ctx, Live, 0)
			return nil, err
		case live.Version > c.cfg.Version:
			return nil, c.superseded(live)
		case live.Version < c.cfg.Version:
			if !waitsForVersion {
				c.cfg.Logger.Warn("the tables are of an earlier version of the projection: rebuild them", "version", live.Version, "program", c.cfg.Version)
			}
			waitsForVersion = true
			return nil, nil
		}
		return c.lead(ctx, live)
	})
}

// liveGeneration returns the generation that programs read; the zero value if none exists.
func (c *connection) liveGeneration(ctx context.Context) (live Generation, err error) {
	all, err := c.readGenerations(ctx, c.cfg.DB)
	for _, g := range all {
		if g.State == Live {
			live = g
		}
	}
	return live, err
}

func (c *connection) superseded(live Generation) error {
	return fmt.Errorf("projection %s: %w: version %d, and the program has version %d", c.cfg.Name, ErrSuperseded, live.Version, c.cfg.Version)
}

// lead returns a runner of a generation if no other process has its lease, and nil if one
// has.
func (c *connection) lead(ctx context.Context, g Generation) (*runner, error) {
	lease := &database.Lease{DB: c.cfg.DB, Dialect: c.dialect, Duration: c.cfg.Lease, Name: c.leaseName(g)}
	if held, err := lease.TryAcquire(ctx); err != nil || !held {
		return nil, err
	}
	r := &runner{connection: c, lease: lease, generation: g}
	if isThere, err := r.reload(ctx); err != nil || !isThere {
		lease.Release(ctx)
		return nil, err
	}
	return r, nil
}

// reload reads the generation again, and reports whether it can still be changed.
func (r *runner) reload(ctx context.Context) (isThere bool, err error) {
	all, err := r.readGenerations(ctx, r.cfg.DB)
	if err != nil {
		return false, err
	}
	for _, g := range all {
		if g.Number == r.generation.Number && g.State != Retired {
			r.generation, isThere = g, true
		}
	}
	return isThere, nil
}

// await repeats try until it returns a runner. It waits while try returns neither that nor an
// error.
func await(ctx context.Context, c *connection, try func() (*runner, error)) (r *runner, err error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for r == nil && err == nil {
		err = c.insist(ctx, func() (err error) {
			r, err = try()
			return err
		})
		if r != nil || err != nil {
			break
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return r, err
}

// follow handles events until ctx ends or caughtUp returns true or an error. It waits while
// the store does not answer.
func (r *runner) follow(ctx context.Context, caughtUp func(context.Context, *runner) (done bool, err error)) error {
	pauses, failures := backoff.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}, 0
	for {
		before := r.generation.revision
		err := r.read(ctx, caughtUp)
		var away *storeError
		if !errors.As(err, &away) || ctx.Err() != nil {
			return err
		}
		if failures++; r.generation.revision != before {
			failures = 1
		}
		r.cfg.Logger.Warn("waiting for the store", "error", away.err)
		r.noteFailure(ctx, fmt.Errorf("waiting for the store: %w", away.err))
		if err := pauses.Wait(ctx, failures, away.retryAfter()); err != nil {
			return err
		}
	}
}

// read handles events until ctx ends, caughtUp is done or something fails.
func (r *runner) read(ctx context.Context, caughtUp func(context.Context, *runner) (bool, error)) error {
	b := newBatch(r.cfg)
	for item, err := range storeread.Sequence(ctx, r.items) {
		var removed *subscription.RemovedError
		switch {
		case errors.As(err, &removed):
			return errors.Join(r.apply(ctx, b), r.overtaken(ctx, removed))
		case err != nil:
			if err := r.apply(ctx, b); err != nil {
				return err
			}
			return &storeError{err}
		case item.CaughtUp:
			b.position = item.Position
			if done, err := r.applyCaughtUp(ctx, b, caughtUp); done || err != nil {
				return err
			}
			b = newBatch(r.cfg)
			continue
		}
		if b.add(item); !b.isFull() {
			continue
		}
		if err := r.apply(ctx, b); err != nil {
			return err
		}
		b = newBatch(r.cfg)
	}
	return ctx.Err()
}

// overtaken returns the error of a projection that retention has overtaken.
func (r *runner) overtaken(ctx context.Context, removed *subscription.RemovedError) error {
	err := fmt.Errorf("projection %s: generation %d: %w: skip-removed continues without them", r.cfg.Name, r.generation.Number, removed)
	r.noteFailure(ctx, err)
	return err
}

// SkipRemoved lets Run and Rebuild continue without the events that retention removed before they were
// handled. Their effects are missing in the tables.
func (p *Projection) SkipRemoved(ctx context.Context) error {
	c, err := p.connect(ctx)
	if err != nil {
		return err
	}
	accepted, err := c.cfg.Reader.Acceptable(ctx)
	if err == nil {
		_, err = c.cfg.DB.ExecContext(ctx, "UPDATE watership_projection SET accepted = $1 WHERE name = $2 AND state <> 'retired'", accepted, c.cfg.Name)
	}
	if err != nil {
		return fmt.Errorf("projection %s: skipping removed events: %w", c.cfg.Name, err)
	}
	return nil
}

// storeError is an error of the store, which may pass.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }

func (e *storeError) retryAfter() time.Duration {
	var failed *eventstore.Error
	if errors.As(e.err, &failed) {
		return failed.RetryAfter
	}
	return 0
}

// applyCaughtUp also saves a position without events, so that a reader of few events does not
// search all of them again. Then it calls caughtUp.
func (r *runner) applyCaughtUp(ctx context.Context, b *batch, caughtUp func(context.Context, *runner) (bool, error)) (done bool, err error) {
	isNewer := laterOf(b.position, r.generation.Position) != r.generation.Position
	if len(b.items) > 0 || isNewer && (caughtUp != nil || time.Since(r.saved) >= idleInterval) {
		if err := r.apply(ctx, b); err != nil {
			return false, err
		}
	}
	if caughtUp == nil {
		return false, nil
	}
	return caughtUp(ctx, r)
}
