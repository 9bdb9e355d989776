package history

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

const (
	// followInterval is the pause between two reads: as long as Elasticsearch takes to
	// show stored documents (index.refresh_interval).
	followInterval = time.Second

	// lookBack bounds how much older than the newest event a late event may be. Documents
	// that are written in parallel become visible in any order, and a refused bulk is sent
	// again. The ids of that period are in memory.
	lookBack = 30 * time.Second
)

// FollowedStore is a store with the bounds that Follow needs.
type FollowedStore interface {
	CheckedStore
	Count(ctx context.Context, selection eventstore.Selection) (int64, error)
	HighestSequence(ctx context.Context) (int64, error)
}

// Receiver receives the events of Follow.
type Receiver interface {
	// Receive receives an event.
	Receive(e schemas.Event) error

	// Flush is called after the last event of each read.
	Flush() error

	// Unreadable receives the error of a document that cannot be read.
	Unreadable(err error)

	// Unavailable receives the error of a store that does not answer, once until it does.
	Unavailable(err error)
}

// Follow passes the newest matching events, at most last, and then each new event once,
// soon after it becomes visible, until ctx ends. It waits for an unavailable store. With
// a cursor in the selection, it passes the events after that place instead of the newest.
//
// It reads on after the highest sequence it has seen. Then it counts the events below,
// back to a bound: if there are more than it has passed, an event became visible late,
// and it reads them again.
func Follow(ctx context.Context, store FollowedStore, selection eventstore.Selection, last int, to Receiver) error {
	selection.Order = eventstore.BySequence
	f := &follower{store: store, selected: selection, to: to, seen: map[string]int64{}}
	f.newest, f.selected.After = selection.After, eventstore.Cursor{}
	err := f.begin(ctx, last)
	for err == nil {
		if backoff.Sleep(ctx, followInterval) != nil {
			return to.Flush()
		}
		if err = f.read(ctx); ctx.Err() == nil { // else the read was stopped, which is no error
			err = f.waitIfUnavailable(err)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

type follower struct {
	store    FollowedStore
	selected eventstore.Selection
	to       Receiver

	newest      eventstore.Cursor
	seen        map[string]int64 // sequence by id, of events not older than lookBack
	unavailable bool             // the receiver knows
}

// begin passes the newest events, and remembers the recent ones.
func (f *follower) begin(ctx context.Context, last int) error {
	if err := f.store.Check(ctx); err != nil {
		return err
	}
	isResumed := f.newest != eventstore.Cursor{}
	if !isResumed {
		highest, err := f.store.HighestSequence(ctx)
		if err != nil {
			return err
		}
		f.newest.Sequence = highest
	}
	for summary, err := range f.store.Summaries(ctx, f.recent()) {
		if err != nil {
			return err
		}
		f.seen[summary.EventID] = summary.Sequence
	}
	if last == 0 || isResumed {
		return nil
	}
	return f.passLast(ctx, last)
}

func (f *follower) passLast(ctx context.Context, last int) error {
	newest := f.selected
	newest.Order, newest.Limit = eventstore.NewestFirst, last
	var events []schemas.Event
	for event, err := range f.store.Events(ctx, newest) {
		if storeread.EndsRead(err) {
			return err
		}
		if err != nil {
			f.to.Unreadable(err)
			continue
		}
		events = append(events, event)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, e := range slices.Backward(events) {
		if err := f.to.Receive(e); err != nil {
			return err
		}
	}
	return f.to.Flush()
}

// waitIfUnavailable drops the error of an unavailable or overloaded store, after the
// receiver has got it once.
func (f *follower) waitIfUnavailable(err error) error {
	var failed *eventstore.Error
	if !errors.As(err, &failed) || failed.Kind != eventstore.Unavailable && failed.Kind != eventstore.Overloaded {
		f.unavailable = f.unavailable && err != nil
		return err
	}
	if !f.unavailable {
		f.unavailable = true
		f.to.Unavailable(err)
	}
	return nil
}

// recent selects the events not older than lookBack, up to the newest seen.
func (f *follower) recent() eventstore.Selection {
	sel := f.selected
	sel.After = eventstore.Cursor{Sequence: max(0, f.newest.Sequence-lookBack.Microseconds())}
	sel.UpTo = f.newest.Sequence
	return sel
}

func (f *follower) read(ctx context.Context) error {
	next := f.selected
	next.After = f.newest
	if err := f.pass(ctx, next); err != nil {
		return err
	}
	if err := f.lookBack(ctx); err != nil {
		return err
	}
	return f.to.Flush()
}

// pass passes the events of a selection that were not passed yet.
func (f *follower) pass(ctx context.Context, sel eventstore.Selection) error {
	for e, err := range f.store.Events(ctx, sel) {
		var failed *eventstore.Error
		if errors.As(err, &failed) {
			return err
		}
		if err != nil { // a document that cannot be read
			f.to.Unreadable(err)
			continue
		}
		if _, again := f.seen[e.EventID]; again {
			continue
		}
		f.seen[e.EventID] = e.Sequence
		if e.Sequence > f.newest.Sequence {
			f.newest = eventstore.Cursor{Sequence: e.Sequence, EventID: e.EventID}
		}
		if err := f.to.Receive(e); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) lookBack(ctx context.Context) error {
	recent := f.recent()
	known := int64(0)
	for id, sequence := range f.seen {
		if sequence < recent.After.Sequence {
			delete(f.seen, id)
		} else if sequence <= recent.UpTo {
			known++
		}
	}
	stored, err := f.store.Count(ctx, recent)
	if err != nil || stored == known {
		return err
	}
	return f.pass(ctx, recent)
}
