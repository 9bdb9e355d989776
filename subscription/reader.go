// Package subscription reads the events of a source in order, first the stored ones and
// then each new one, with no gap between the two:
//
//	reader := subscription.Reader{Store: store, Source: "shop", Query: query}
//	for item, err := range reader.Items(ctx, position) {
//		if err != nil {
//			return err
//		}
//		if !item.CaughtUp && item.Err == nil {
//			fmt.Println(subscription.FormatPosition(item.Position), item.Event.Action)
//		}
//	}
//
// The position of an event is its event.sequence and its id. A new event is read once
// every event before it is in the store, which the indexers record in the store.
package subscription

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Store reads events, and how far they are complete.
type Store interface {
	eventstore.WatermarkStore

	// Events yields the events of a selection. An error that is no *eventstore.Error
	// concerns one document, and the sequence continues.
	Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error]
}

// DefaultInterval is the time between two looks for new events.
const DefaultInterval = 100 * time.Millisecond

// Reader reads the events of one source that match a query. Store and Source are required.
type Reader struct {
	Store  Store
	Source string
	Query  kql.Node // resolved; nil: every event

	// Interval is the time between two looks for new events while there are none. 0:
	// DefaultInterval.
	Interval time.Duration
}

// Item is an event, a document that cannot be read, or the end of the stored events.
type Item struct {
	Event schemas.Event

	// Position is the place of the event in the source. Reading after it continues with the
	// next event.
	Position eventstore.Cursor

	// CaughtUp: there is no event here, and all matching events up to Position were yielded.
	CaughtUp bool

	// Err is the reason why a document is not an event. It has no position.
	Err error
}

// Items yields the matching events after a position in the order of their positions: the
// stored ones, and then each new one once the store has every event before it. It yields an
// item with CaughtUp whenever no more events are stored, and waits for new ones. It ends
// with ctx, without an error, or with the error of the store; a caller can continue after
// the last position.
func (r Reader) Items(ctx context.Context, after eventstore.Cursor) iter.Seq2[Item, error] {
	interval := r.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	return func(yield func(Item, error) bool) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for ctx.Err() == nil {
			last, goOn, err := r.readStored(ctx, after, yield)
			if err != nil && ctx.Err() == nil {
				yield(Item{}, err)
			}
			if err != nil || !goOn {
				return
			}
			after = last
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	}
}

// readStored yields the stored events after a position and returns the next position to
// read after. goOn is false when yield returned false.
func (r Reader) readStored(ctx context.Context, after eventstore.Cursor, yield func(Item, error) bool) (last eventstore.Cursor, goOn bool, err error) {
	complete, err := eventstore.Complete(ctx, r.Store, r.Source)
	if err != nil || complete < after.Sequence {
		return after, true, err
	}
	caughtUp := Item{Position: eventstore.Cursor{Sequence: complete + 1}, CaughtUp: true}
	if complete == 0 {
		return caughtUp.Position, yield(caughtUp, nil), nil
	}
	if err := r.Store.Refresh(ctx); err != nil {
		return after, true, err
	}
	selection := eventstore.Selection{Query: r.query(), Order: eventstore.BySequence, After: after, UpTo: complete}
	for event, err := range r.Store.Events(ctx, selection) {
		var failed *eventstore.Error
		if errors.As(err, &failed) {
			return after, true, err
		}
		item := Item{Event: event, Err: err}
		if err == nil {
			item.Position = eventstore.Cursor{Sequence: event.Sequence, EventID: event.EventID}
			after = item.Position
		}
		if !yield(item, nil) {
			return after, false, nil
		}
	}
	if ctx.Err() != nil { // the reading may have ended early
		return after, true, nil
	}
	return caughtUp.Position, yield(caughtUp, nil), nil
}

// KnowsSource reports whether an indexer has recorded events of the source, or the store has one.
// A misspelt source is not known.
func (r Reader) KnowsSource(ctx context.Context) (bool, error) {
	_, version, err := eventstore.ReadWatermarks(ctx, r.Store, r.Source)
	if err != nil || version != "" {
		return err == nil, err
	}
	oldest, err := r.OldestSequence(ctx)
	return oldest > 0, err
}

// firstReadable is the number of documents among which the first event is found.
const firstReadable = 100

// OldestSequence returns the lowest event.sequence of the source in the store, whatever the query
// is; 0 if there is no event.
func (r Reader) OldestSequence(ctx context.Context) (int64, error) {
	if err := r.Store.Refresh(ctx); err != nil {
		return 0, fmt.Errorf("looking for the oldest event of %s: %w", r.Source, err)
	}
	all := Reader{Source: r.Source}
	for event, err := range r.Store.Events(ctx, eventstore.Selection{Query: all.query(), Order: eventstore.BySequence, WithoutBody: true, Limit: firstReadable}) {
		var failed *eventstore.Error
		if errors.As(err, &failed) {
			return 0, fmt.Errorf("looking for the oldest event of %s: %w", r.Source, err)
		}
		if err == nil {
			return event.Sequence, nil
		}
	}
	return 0, context.Cause(ctx)
}

func (r Reader) query() kql.Node {
	ofSource := kql.FieldIs("watership.source", r.Source)
	if r.Query == nil {
		return ofSource
	}
	return kql.And{ofSource, r.Query}
}
