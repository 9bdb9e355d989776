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

	// Removed reports which events of a source retention has removed.
	Removed(ctx context.Context, source string) (eventstore.Removed, error)
}

// DefaultInterval is the time between two looks for new events.
const DefaultInterval = 100 * time.Millisecond

// Reader reads the events of one source that match a query. Store and Source are required.
type Reader struct {
	Store  Store
	Source string
	Query  kql.Node // resolved; nil: every event

	// Interval is the time between two looks for new events while none exists. 0:
	// DefaultInterval.
	Interval time.Duration

	// Accept is a sequence up to which events may be missing, since retention has removed them: see
	// Acceptable. If it is 0, everything may be missing before the first event that is read from the
	// start.
	Accept int64

	first int // events of the first page; 0: as many as of others
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
// the last position. It ends with a *RemovedError in place of events that come after others which
// retention has removed.
func (r Reader) Items(ctx context.Context, after eventstore.Cursor) iter.Seq2[Item, error] {
	interval := r.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	return func(yield func(Item, error) bool) {
		r.Store = newSharedReads(r.Store)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		reading := reading{Reader: r, after: after, yield: yield}
		for ctx.Err() == nil {
			goOn, err := reading.readStored(ctx)
			if err != nil && ctx.Err() == nil {
				yield(Item{}, err)
			}
			if err != nil || !goOn {
				return
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	}
}

// reading is one call of Items.
type reading struct {
	Reader
	yield   func(Item, error) bool
	after   eventstore.Cursor // of the events that were yielded
	page    []Item            // events after it
	bytes   int               // of their bodies
	checked time.Time         // when it was certain that none is missing before the page
}

// A page is read before it is yielded, so that its events are there when the check begins.
const (
	maxPage      = 500
	maxPageBytes = 8 << 20
)

// readStored yields the stored events. goOn is false when yield returned false.
func (r *reading) readStored(ctx context.Context) (goOn bool, err error) {
	complete, err := eventstore.Complete(ctx, r.Store, r.Source)
	if err != nil || complete < r.after.Sequence {
		return true, err
	}
	caughtUp := Item{Position: eventstore.Cursor{Sequence: complete + 1}, CaughtUp: true}
	if complete == 0 {
		return r.pass(caughtUp), nil
	}
	if err := r.Store.Refresh(ctx); err != nil {
		return true, err
	}
	first := r.first
	selection := eventstore.Selection{Query: r.query(), Order: eventstore.BySequence, After: r.after, UpTo: complete, Limit: first}
	for event, err := range r.Store.Events(ctx, selection) {
		var failed *eventstore.Error
		if errors.As(err, &failed) {
			return r.failAfterPage(ctx, err)
		}
		item := Item{Event: event, Err: err}
		if err == nil {
			item.Position = eventstore.Cursor{Sequence: event.Sequence, EventID: event.EventID}
		}
		r.page = append(r.page, item)
		r.bytes += len(event.Envelope.Body)
		if len(r.page) < maxPage && r.bytes < maxPageBytes {
			continue
		}
		if goOn, err := r.passPage(ctx); err != nil || !goOn {
			return goOn, err
		}
	}
	if ctx.Err() != nil { // the reading may have ended early
		return true, nil
	}
	if goOn, err := r.passPage(ctx); err != nil || !goOn {
		return goOn, err
	}
	if r.first = 0; first > 0 {
		return true, nil // more may be stored
	}
	return r.pass(caughtUp), nil
}

// failAfterPage yields the events that were read before an error of the store.
func (r *reading) failAfterPage(ctx context.Context, failed error) (goOn bool, err error) {
	if goOn, err := r.passPage(ctx); err != nil || !goOn {
		return goOn, err
	}
	return true, failed
}

// passPage yields the events of the page, if none is missing before them.
func (r *reading) passPage(ctx context.Context) (goOn bool, err error) {
	if len(r.page) > 0 || time.Since(r.checked) > checkInterval {
		if err := r.checkRemoved(ctx); err != nil {
			return true, err
		}
	}
	page := r.page
	r.page, r.bytes = nil, 0
	for _, item := range page {
		if !r.pass(item) {
			return false, nil
		}
	}
	return true, nil
}

func (r *reading) pass(item Item) (goOn bool) {
	if item.Err == nil {
		r.after = item.Position
	}
	return r.yield(item, nil)
}

func (r Reader) query() kql.Node {
	ofSource := kql.FieldIs("watership.source", r.Source)
	if r.Query == nil {
		return ofSource
	}
	return kql.And{ofSource, r.Query}
}
