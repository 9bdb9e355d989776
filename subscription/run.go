package subscription

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/exclusive"
)

// Run runs a subscription to a handler (ToHandler) until ctx ends, and returns nil then. It calls handle with one
// event after another, or with several at a time (Subscription.By), at the pace of the handler. An error of handle is repeated as
// Subscription.Policy says; one of retry.Permanent makes the message poison, and one of
// retry.Unavailable costs no attempt.
//
// While another process runs the subscription, or an operator has paused it, Run waits. Its
// error is a *NotFoundError if the subscription does not exist or is deleted.
func (s *Subscriptions) Run(ctx context.Context, name string, handle func(context.Context, Delivery) error) error {
	sub, err := s.Get(ctx, name)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	if sub.Target.Kind != ToHandler {
		return mistakef("subscription %s delivers to %s: watership serve runs it", name, sub.Target)
	}
	return s.onConnections(ctx, func(conn *exclusive.Connection) error { return s.runOn(ctx, conn, name, handle) })
}

// onConnections calls do with a connection, and again with another one after a loss.
func (s *Subscriptions) onConnections(ctx context.Context, do func(*exclusive.Connection) error) error {
	for failures := 0; ctx.Err() == nil; {
		conn, err := s.connect(ctx)
		if err != nil {
			failures++
			s.cfg.Logger.Warn("a subscription waits for the broker", "error", err)
			_ = pauses.Wait(ctx, failures, 0)
			continue
		}
		failures = 0
		err = do(conn)
		_ = conn.Close()
		if err != nil && ctx.Err() == nil && !errors.Is(err, exclusive.ErrLost) {
			return err
		}
	}
	return nil
}

// runOn runs a subscription while there is the connection.
func (s *Subscriptions) runOn(ctx context.Context, conn *exclusive.Connection, name string, handle func(context.Context, Delivery) error) error {
	for {
		sub, err := s.Get(ctx, name)
		var missing *NotFoundError
		if errors.As(err, &missing) {
			return err
		}
		if err == nil && sub.State == Active {
			if err = s.runUntilChanged(ctx, conn, sub, handle); errors.Is(err, exclusive.ErrLost) {
				return err
			}
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, errBusy) && !errors.Is(err, errChanged) {
			s.cfg.Logger.Warn("a subscription does not run; trying again", "subscription", name, "error", err)
		}
		select {
		case <-time.After(watchInterval):
		case <-conn.Lost():
			return exclusive.ErrLost
		case <-ctx.Done():
			return nil
		}
	}
}

// runUntilChanged ends with errChanged when an operator has changed the subscription.
func (s *Subscriptions) runUntilChanged(ctx context.Context, conn *exclusive.Connection, sub Subscription, handle func(context.Context, Delivery) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		ticker := time.NewTicker(watchInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			latest, err := s.Get(ctx, sub.Name)
			var missing *NotFoundError
			if errors.As(err, &missing) || err == nil && (latest.Revision != sub.Revision || !latest.Created.Equal(sub.Created)) {
				cancel(errChanged)
				return
			}
		}
	})
	return s.run(ctx, conn, sub.Name, handle)
}

// Received is a delivery to a channel. Done comes after it.
type Received struct {
	Delivery
	done chan<- error
}

// Done says that the event is handled, or why it failed, as the error of a handler does.
// The next delivery comes after it. It is called once.
func (r Received) Done(err error) { r.done <- err }

// Send is Run for a channel: each delivery waits for its receiver, and then for Done. It
// closes the channel when it returns.
func (s *Subscriptions) Send(ctx context.Context, name string, to chan<- Received) error {
	defer close(to)
	return s.Run(ctx, name, func(ctx context.Context, d Delivery) error {
		done := make(chan error, 1)
		select {
		case to <- Received{d, done}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
		}
		select {
		case err := <-done: // prefer the outcome when both are ready
			return err
		default:
			return context.Cause(ctx)
		}
	})
}

// Follow runs a subscription to a queue without a record, until ctx ends or a message cannot
// be delivered. progress is called about each second with its checkpoint. The name in the
// deliveries is the one of sub, or a random one.
func (s *Subscriptions) Follow(ctx context.Context, sub Subscription, from From, progress func(Checkpoint)) error {
	sub.Name, sub.Source, sub.OnPoison, sub.State = cmp.Or(sub.Name, "follow-"+rand.Text()), s.cfg.Source, Stop, Active
	query, err := s.resolve(sub.Query)
	if err != nil {
		return err
	}
	sub.Query = query.String()
	if err := sub.check(s.cfg.Topology.Owns); err != nil {
		return err
	}
	if sub.Start, err = s.find(ctx, from); err != nil {
		return err
	}
	sub.Checkpoint = Checkpoint{Position: sub.Start}
	return s.onConnections(ctx, func(conn *exclusive.Connection) error {
		ctx, cancel := context.WithCancelCause(ctx)
		r := &runner{Subscriptions: s, conn: conn, sub: sub, unnamed: true}
		var watch sync.WaitGroup
		watch.Go(func() { r.report(ctx, cancel, progress) })
		err := r.runClaimed(ctx)
		lost := context.Cause(ctx)
		cancel(nil)
		watch.Wait()
		sub.Checkpoint = r.checkpoint()
		progress(sub.Checkpoint)
		return cmp.Or(lost, err)
	})
}

// report reports the progress until ctx ends, and cancels it when the connection is lost.
func (r *runner) report(ctx context.Context, cancel context.CancelCauseFunc, progress func(Checkpoint)) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			progress(r.checkpoint())
		case <-r.conn.Lost():
			cancel(exclusive.ErrLost)
		case <-ctx.Done():
			return
		}
	}
}
