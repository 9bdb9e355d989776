package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/app"
)

const (
	// followPause is the pause between two reads: as long as Elasticsearch takes to show
	// stored documents (index.refresh_interval).
	followPause = time.Second

	// lookBack bounds how much older than the newest event a late event may be. Documents
	// that are written in parallel become visible in any order, and a refused bulk is sent
	// again. The ids of that period are in memory.
	lookBack = 30 * time.Second
)

// follower prints new events. It reads on after the highest sequence it has seen. Then
// it counts the events below, back to a bound: if there are more than it has printed,
// an event became visible late, and it reads them again.
type follower struct {
	store    app.EventStore
	selected eventstore.Selection
	to       list
	writer   eventWriter
	pause    time.Duration

	newest eventstore.Cursor
	seen   map[string]int64 // sequence by id, of events not older than lookBack
	away   bool             // the store is away, and the command has said so
}

func newFollower(store app.EventStore, sel eventstore.Selection, to list, writer eventWriter) *follower {
	return &follower{store: store, selected: sel, to: to, writer: writer, pause: followPause, seen: map[string]int64{}}
}

// run ends without an error when ctx does.
func (f *follower) run(ctx context.Context, lines int) error {
	err := f.begin(ctx, lines)
	for err == nil {
		select {
		case <-time.After(f.pause):
		case <-ctx.Done():
			return f.writer.end()
		}
		if err = f.look(ctx); ctx.Err() == nil { // else it was stopped during the read, which is no error
			err = f.goOn(err)
		}
	}
	if ctx.Err() != nil { // the user ended it
		return nil
	}
	return err
}

// begin prints the newest events, and remembers the recent ones.
func (f *follower) begin(ctx context.Context, lines int) error {
	if err := f.store.Check(ctx); err != nil {
		return err
	}
	highest, err := f.store.HighestSequence(ctx)
	if err != nil {
		return err
	}
	f.newest.Sequence = highest
	for fact, err := range f.store.Summaries(ctx, f.recent()) {
		if err != nil {
			return err
		}
		f.seen[fact.EventID] = fact.Sequence
	}
	if lines == 0 {
		return nil
	}
	return f.showLast(ctx, lines)
}

func (f *follower) showLast(ctx context.Context, lines int) error {
	last := f.selected
	last.Order, last.Limit = eventstore.NewestFirst, lines
	events, err := collect(ctx, f.store.Events(ctx, last))
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(events) {
		if err := f.writer.event(e); err != nil {
			return err
		}
	}
	return f.writer.end()
}

// goOn waits for a store that is away or busy, and says so once.
func (f *follower) goOn(err error) error {
	var failed *eventstore.Error
	if !errors.As(err, &failed) || failed.Kind != eventstore.Unavailable && failed.Kind != eventstore.Overloaded {
		f.away = f.away && err != nil
		return err
	}
	if !f.away {
		f.away = true
		f.to.Complain("waiting for the store: %v", err)
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

func (f *follower) look(ctx context.Context) error {
	next := f.selected
	next.After = f.newest
	if err := f.print(ctx, next); err != nil {
		return err
	}
	if err := f.lookBack(ctx); err != nil {
		return err
	}
	return f.writer.end()
}

// print writes the events of a selection that were not written yet.
func (f *follower) print(ctx context.Context, sel eventstore.Selection) error {
	for e, err := range f.store.Events(ctx, sel) {
		var failed *eventstore.Error
		if errors.As(err, &failed) {
			return err
		}
		if err != nil { // a document that cannot be read
			f.to.Complain("%v", err)
			continue
		}
		if _, again := f.seen[e.EventID]; again {
			continue
		}
		f.seen[e.EventID] = e.Sequence
		if e.Sequence > f.newest.Sequence {
			f.newest = eventstore.Cursor{Sequence: e.Sequence, EventID: e.EventID}
		}
		if err := f.writer.event(e); err != nil {
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
	there, err := f.store.Count(ctx, recent)
	if err != nil || there == known {
		return err
	}
	return f.print(ctx, recent)
}
