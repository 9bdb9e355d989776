package subscription

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/exclusive"
	"github.com/watershipmq/watership/internal/topology"
)

var (
	errChanged = errors.New("the subscription was changed")
	errBusy    = errors.New("another process runs the subscription")
)

// stopError stops the subscription until its operator resumes it.
type stopError struct{ error }

func (e stopError) Unwrap() error { return e.error }

// runner runs one subscription on a connection that holds its lease.
type runner struct {
	*Subscriptions
	conn      *exclusive.Connection
	publisher *rabbit.Publisher // of a queue
	delivery  topology.DirectDelivery
	call      func(ctx context.Context, d Delivery) error // of a URL or a handler
	view      *runnerView
	unnamed   bool // the subscription has no record

	bound bool // the queue is bound for direct delivery

	upcast   upcaster     // of the settings
	settings Subscription // as the run began; its checkpoint and its version are in sub

	saving  sync.Mutex // serializes saves of the checkpoint
	mu      sync.Mutex // guards the fields below
	sub     Subscription
	saved   time.Time
	unsaved int  // number of events since then
	dirty   bool // the checkpoint has changed since it was saved
}

// Intervals of a runner.
const (
	saveInterval  = time.Second           // of checkpoints with deliveries
	saveAfter     = 500                   // events
	saveLook      = 50 * time.Millisecond // between two looks whether to save
	idleInterval  = 5 * time.Second       // of checkpoints without
	saveTimeout   = 10 * time.Second
	watchInterval = time.Second // between two looks for changes
)

// run runs the subscription until ctx ends, the lease is lost or an operator changes it.
func (s *Subscriptions) run(ctx context.Context, conn *exclusive.Connection, name string, call func(context.Context, Delivery) error) (err error) {
	unlock, err := conn.Lock(ctx, leaseQueue(s.cfg.Topology, name), 0)
	if errors.Is(err, exclusive.ErrLocked) {
		return errBusy
	}
	if err != nil {
		return fmt.Errorf("holding the queue of subscription %s: %w", name, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-conn.Lost():
			cancel(exclusive.ErrLost)
		case <-ctx.Done():
		}
	})
	defer func() {
		cancel(nil)
		watch.Wait()
		err = errors.Join(err, s.unlock(conn, unlock))
	}()
	r := &runner{Subscriptions: s, conn: conn, call: call}
	if err := r.claim(ctx, name); err != nil {
		return err
	}
	return r.runClaimed(ctx)
}

// runClaimed runs a subscription that no other process runs.
func (r *runner) runClaimed(ctx context.Context) (err error) {
	r.settings = r.sub
	if r.upcast, err = newUpcaster(r.cfg, r.settings); err != nil {
		return err
	}
	r.view = r.viewOf(r.sub.Name)
	r.view.set(r.sub, true)
	defer func() { r.view.set(r.sub, false) }()
	if r.settings.Target.Kind == ToQueue {
		binding, err := r.conn.Other()
		if err != nil {
			return fmt.Errorf("connecting for subscription %s: %w", r.settings.Name, err)
		}
		r.publisher = rabbit.NewPublisher(r.conn.Connection, rabbit.PublisherConfig{Window: window})
		defer func() { _ = r.publisher.Close() }()
		r.delivery = topology.DirectDelivery{
			Topology: r.cfg.Topology, StateKeys: r.cfg.StateKeys, Publisher: r.publisher, Login: r.login,
			Binder: topology.Reconciler{Conn: binding, Config: topology.Config{Topology: r.cfg.Topology}, SelfBindings: &topology.SelfBindings{}},
		}
	}
	return r.sessions(ctx)
}

// unlock lets another process run the subscription, unless the connection is lost, which
// does so by itself.
func (s *Subscriptions) unlock(conn *exclusive.Connection, unlock func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	select {
	case <-conn.Lost():
		return nil
	default:
		return unlock(ctx)
	}
}

// claim reads the subscription and saves it, so that a former runner which does not know yet
// that it has lost the lease cannot save any more.
func (r *runner) claim(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		sub, err := r.Get(ctx, name)
		if err != nil {
			return err
		}
		if err := sub.check(r.cfg.Topology.Owns); err != nil {
			return err
		}
		if sub.State != Active {
			return errChanged
		}
		sub.Checkpoint.Runner, sub.Checkpoint.Time = r.runner, time.Now().UTC()
		sub.Checkpoint.Waiting, sub.Checkpoint.Error = "", ""
		saved, err := r.save(ctx, &sub)
		if err != nil {
			return err
		}
		if saved {
			r.sub, r.saved = sub, time.Now()
			return nil
		}
	}
	return context.Cause(ctx)
}

// pauses between the sessions of a subscription that cannot go on.
var pauses = backoff.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}

// sessions reads and delivers, and after a problem that is no message's fault does so again
// after the last confirmed delivery.
func (r *runner) sessions(ctx context.Context) error {
	for failures := 0; ; {
		before := r.checkpoint().Position
		err := r.session(ctx)
		if r.checkpoint().Position != before {
			failures = 0
		}
		var stopped stopError
		switch {
		case ctx.Err() != nil:
			return errors.Join(r.saveFinal(ctx), context.Cause(ctx))
		case errors.Is(err, errChanged):
			return err
		case errors.As(err, &stopped):
			return r.stop(ctx, stopped)
		}
		why := reasonToWait(err)
		if why.cause == OtherError {
			r.cfg.Logger.Warn("a subscription could not go on; trying again", "subscription", r.settings.Name, "error", err)
		}
		r.wait(why)
		failures++
		if pauses.Wait(ctx, failures, 0) != nil {
			return errors.Join(r.saveFinal(ctx), context.Cause(ctx))
		}
		if err := r.saveCheckpoint(ctx, true); errors.Is(err, errChanged) {
			return err
		}
	}
}

func (r *runner) checkpoint() Checkpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sub.Checkpoint
}

// wait notes why nothing is delivered.
func (r *runner) wait(why reason) {
	text := r.cfg.text(why)
	r.update(func(c *Checkpoint) bool {
		changed := c.Waiting != why.cause || c.Error != text || c.CaughtUp
		c.Waiting, c.Error, c.CaughtUp = why.cause, text, false
		return changed
	})
}

// update changes the checkpoint. change reports whether it did.
func (r *runner) update(change func(*Checkpoint) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if change(&r.sub.Checkpoint) {
		r.dirty = true
		r.view.set(r.sub, true)
	}
}

// saveCheckpoint saves the checkpoint if it has changed. Its error is errChanged if an
// operator or another runner has saved the subscription.
func (r *runner) saveCheckpoint(ctx context.Context, force bool) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	sub, unsaved, needed := r.sub, r.unsaved, !r.unnamed && (r.dirty || force)
	r.saved = time.Now() // also if it fails, so that a store that is unavailable is not asked all the time
	if needed {
		r.dirty = false
	}
	r.mu.Unlock()
	if !needed {
		return nil
	}
	sub.Checkpoint.Time = time.Now().UTC()
	saved, err := r.save(ctx, &sub)
	if err == nil && !saved {
		err = r.saveAfterChange(ctx, &sub)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.dirty = true
		return err
	}
	r.sub.version, r.sub.Checkpoint.Time = sub.version, sub.Checkpoint.Time
	r.unsaved -= unsaved
	return nil
}

// saveAfterChange saves a checkpoint after another save. It counts if the other one was a
// save of this runner, whose response was lost, or if an operator has changed something else:
// then the error is errChanged all the same. It is void after a rewind or a deletion, or if
// another runner has begun.
func (r *runner) saveAfterChange(ctx context.Context, sub *Subscription) error {
	for ctx.Err() == nil {
		latest, err := r.Get(ctx, sub.Name)
		var missing *NotFoundError
		switch {
		case errors.As(err, &missing):
			return errChanged
		case err != nil:
			return err
		case latest.Rewinds != sub.Rewinds, !latest.Created.Equal(sub.Created), latest.Checkpoint.Runner != r.runner:
			return errChanged
		}
		latest.Checkpoint = sub.Checkpoint
		saved, err := r.save(ctx, &latest)
		if err != nil {
			return err
		}
		if saved && latest.Revision != sub.Revision {
			return errChanged
		}
		if saved {
			*sub = latest
			return nil
		}
	}
	return context.Cause(ctx)
}

// saveFinal saves the last checkpoint of a runner that ends.
func (r *runner) saveFinal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	err := r.saveCheckpoint(ctx, false)
	if errors.Is(err, errChanged) {
		return nil
	}
	return err
}

// stop stops the subscription because of a message, or of events that retention has removed.
func (r *runner) stop(ctx context.Context, why error) error {
	if r.unnamed {
		return why
	}
	r.mu.Lock()
	r.sub.State, r.sub.Reason, r.sub.ChangedBy, r.sub.Changed = Stopped, why.Error(), "", time.Now().UTC()
	r.sub.Checkpoint.Waiting, r.sub.Checkpoint.Error = "", ""
	var removed *RemovedError
	if errors.As(why, &removed) {
		r.sub.RemovedUpTo = removed.UpTo
	}
	r.sub.Revision++
	r.dirty = true
	r.mu.Unlock()
	r.cfg.Logger.Error("a subscription has stopped", "subscription", r.settings.Name, "error", why)
	for failures := 1; ; failures++ {
		err := r.saveStopped(ctx)
		if err == nil || errors.Is(err, errChanged) || ctx.Err() != nil {
			return errors.Join(errChanged, err)
		}
		if pauses.Wait(ctx, failures, 0) != nil {
			return context.Cause(ctx)
		}
	}
}

func (r *runner) saveStopped(ctx context.Context) error {
	r.mu.Lock()
	saved, err := r.save(ctx, &r.sub)
	if saved || err != nil {
		r.view.set(r.sub, true)
	}
	r.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !saved:
		return errChanged
	}
	r.noteChange(ctx)
	return nil
}
