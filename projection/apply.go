package projection

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// apply handles a batch in one transaction. If that fails, each event gets a transaction of
// its own, so that an event that fails neither repeats nor holds up those before it.
func (r *runner) apply(ctx context.Context, b *batch) error {
	if len(b.items) == 0 && b.position == (eventstore.Cursor{}) {
		return nil
	}
	if err := r.findBodies(ctx, b); err != nil {
		return err
	}
	if before, missing := r.splitAtBody(b); missing != nil {
		if len(before.items) > 0 {
			if err := r.apply(ctx, before); err != nil {
				return err
			}
		}
		return &storeError{missing}
	}
	if !b.hasUnreadable() {
		if done, err := r.applyAtOnce(ctx, b); done || err != nil {
			return err
		}
	}
	if len(b.items) == 0 {
		return r.insist(ctx, func() error { return r.commitOnce(ctx, b, nil) })
	}
	for i := range b.items {
		if err := r.applySingle(ctx, b.single(i)); err != nil {
			return err
		}
	}
	return nil
}

// applyAtOnce handles a batch in one transaction. done is false, without an error, if that failed
// and has no effect.
func (r *runner) applyAtOnce(ctx context.Context, b *batch) (done bool, err error) {
	err = r.commit(ctx, b, nil)
	if err == nil || isFinal(ctx, err) {
		return err == nil, err
	}
	if usercode.TimedOut(err) {
		r.noteFailure(ctx, err)
	}
	err = r.insist(ctx, func() (err error) {
		done, err = r.wasCommitted(ctx)
		return err
	})
	return done, err
}

// isFinal reports whether a transaction is not to be tried again.
func isFinal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, database.ErrLeaseLost)
}

// applySingle handles one event, as often as the policy says.
func (r *runner) applySingle(ctx context.Context, b *batch) error {
	item := b.items[0]
	if item.Err != nil {
		return r.giveUp(ctx, b, item.Err)
	}
	var first time.Time // of its failures
	for attempt := r.generation.attempts + 1; ; {
		err := r.commitOnce(ctx, b, nil)
		if err == nil || isFinal(ctx, err) {
			return err
		}
		r.noteAttempt(ctx, attempt, err)
		now := time.Now()
		if first.IsZero() {
			first = now
		}
		decision := r.cfg.Policy.Next(retry.Failure{Err: err, Attempt: attempt, First: first, Now: now}, backoff.Random().Float64)
		if r.cfg.DB.PingContext(ctx) != nil {
			decision = retry.Decision{Action: retry.Defer, Delay: cmp.Or(decision.Delay, maxPause)}
		}
		r.cfg.Logger.Warn("an event failed", "event", item.Event.EventID, "attempt", attempt, "next", decision.Action, "delay", decision.Delay, "error", err)
		switch decision.Action {
		case retry.Poison:
			return r.giveUp(ctx, b, err)
		case retry.Retry:
			attempt++
		}
		if usercode.TimedOut(err) {
			return &hangError{err, decision.Delay}
		}
		if err := backoff.Sleep(ctx, decision.Delay); err != nil {
			return err
		}
	}
}

// hangError ends a runner whose handler does not return, which may be due to its process: after the
// delay another one may have the lease.
type hangError struct {
	err   error
	delay time.Duration
}

func (e *hangError) Error() string { return e.err.Error() }

// giveUp parks an event, or ends the projection. A process that is started again begins with the first
// attempt.
func (r *runner) giveUp(ctx context.Context, b *batch, why error) error {
	if r.cfg.Park {
		return r.insist(ctx, func() error { return r.commitOnce(ctx, b, why) })
	}
	r.noteAttempt(ctx, 0, why)
	return &EventError{Projection: r.cfg.Name, Event: b.items[0].Event, Err: why}
}

// commitOnce commits a batch, unless an earlier attempt has.
func (r *runner) commitOnce(ctx context.Context, b *batch, parked error) error {
	if done, err := r.wasCommitted(ctx); done || err != nil {
		return err
	}
	return r.commit(ctx, b, parked)
}

// wasCommitted reports whether the latest attempt to commit succeeded: the answer to a commit may
// be lost with the connection.
func (r *runner) wasCommitted(ctx context.Context) (bool, error) {
	before := r.generation.revision
	isThere, err := r.reload(ctx)
	switch {
	case err != nil:
		return false, err
	case !isThere:
		return false, fmt.Errorf("generation %d: %w", r.generation.Number, database.ErrLeaseLost)
	case r.generation.revision != before+1:
		return false, nil
	}
	if err := r.fence(ctx); isFinal(ctx, err) { // no other process changes it while the lease is held
		return false, err
	}
	return true, nil
}

func (r *runner) fence(ctx context.Context) error {
	return database.InTx(ctx, r.cfg.DB, func(tx *sql.Tx) error { return r.lease.Fence(ctx, tx) })
}

// commit handles a batch, or records its only event as parked, and saves the checkpoint, all
// in one transaction.
func (r *runner) commit(ctx context.Context, b *batch, parked error) error {
	var after Generation
	err := database.InTx(ctx, r.cfg.DB, func(tx *sql.Tx) (err error) {
		if err := r.lease.Fence(ctx, tx); err != nil {
			return err
		}
		after, err = r.handle(ctx, tx, b, parked)
		return err
	})
	if err != nil {
		return err
	}
	r.generation, r.saved = after, time.Now()
	return nil
}

// handle returns the generation as it is after the transaction.
func (r *runner) handle(ctx context.Context, tx *sql.Tx, b *batch, parked error) (Generation, error) {
	g := r.generation
	to := checkpoint{position: laterOf(b.position, g.Position), first: g.First, handled: int64(len(b.items))}
	if to.first == 0 && g.known() == 0 && len(b.items) > 0 {
		to.first = b.items[0].Position.Sequence
	}
	if parked != nil {
		to.handled, to.parked = 0, 1
	}
	if err := r.advance(ctx, tx, g, to); err != nil {
		return g, err
	}
	g.Position, g.First, g.Events, g.Parked, g.Failure = to.position, to.first, g.Events+to.handled, g.Parked+to.parked, ""
	g.attempts = 0
	g.revision++
	if parked != nil {
		return g, r.park(ctx, tx, b.items[0], to.position, parked)
	}
	for _, item := range b.items {
		if r.lacksBody(item) {
			return g, errNoBody(item.Event)
		}
		if err := r.callHandle(ctx, tx, Tables{g.Number}, item.Event); err != nil {
			return g, err
		}
	}
	return g, nil
}

// callHandle calls Upcast and Handle, which may panic or never return.
func (r *runner) callHandle(ctx context.Context, tx *sql.Tx, tables Tables, event schemas.Event) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	_, err := usercode.CallUntil(ctx, r.calls, timeoutGrace, func() (struct{}, error) {
		event, err := r.upcast(event)
		if err == nil && ctx.Err() != nil { // it has been given up, and the event is tried again
			err = context.Cause(ctx)
		}
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, r.cfg.Handle(ctx, tx, tables, event)
	})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the handler had its time limit of %s: %w", r.cfg.Timeout, err)
	}
	return err
}

// upcast returns the event for Handle. An upcast that fails would fail again. Another attempt gets
// the event as it is in the store, although Upcast may change headers in place.
func (r *runner) upcast(event schemas.Event) (schemas.Event, error) {
	if r.cfg.Upcast == nil {
		return event, nil
	}
	event.Envelope = event.Envelope.Clone()
	upcast, err := usercode.Recover(func() (schemas.Event, error) { return r.cfg.Upcast(event) })
	if err != nil {
		return event, retry.Permanent(fmt.Errorf("upcasting: %w", err))
	}
	return upcast, nil
}

// laterOf returns the later position. A document that cannot be read has none.
func laterOf(a, b eventstore.Cursor) eventstore.Cursor {
	if a.Sequence > b.Sequence || a.Sequence == b.Sequence && a.EventID > b.EventID {
		return a
	}
	return b
}

// noteFailure makes an error readable in Generations, if the database answers.
func (r *runner) noteFailure(ctx context.Context, failure error) {
	_, _ = r.cfg.DB.ExecContext(ctx, "UPDATE watership_projection SET failure = $1, updated = "+r.dialect.Now+" WHERE name = $2 AND generation = $3",
		database.Text(failure), r.cfg.Name, r.generation.Number)
}

// noteAttempt is noteFailure for the event after the checkpoint, and saves the number of attempts for
// the next process.
func (r *runner) noteAttempt(ctx context.Context, attempts int, failure error) {
	r.noteFailure(ctx, failure)
	_, _ = r.cfg.DB.ExecContext(ctx, "UPDATE watership_projection SET attempts = $1 WHERE name = $2 AND generation = $3 AND revision = $4",
		attempts, r.cfg.Name, r.generation.Number, r.generation.revision)
}

const (
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
	tries    = 8 // while the database answers
)

// insist repeats do. Errors while the database does not answer do not count.
func (c *connection) insist(ctx context.Context, do func() error) error {
	pauses := backoff.Backoff{Min: minPause, Max: maxPause}
	for failures, counted := 1, 1; ; failures++ {
		err := do()
		if err == nil || isFinal(ctx, err) || errors.Is(err, ErrSuperseded) || retry.IsPermanent(err) {
			return err
		}
		if c.cfg.DB.PingContext(ctx) == nil {
			if counted++; counted > tries {
				return err
			}
		}
		c.cfg.Logger.Warn("trying again", "error", err)
		if err := pauses.Wait(ctx, failures, 0); err != nil {
			return err
		}
	}
}
