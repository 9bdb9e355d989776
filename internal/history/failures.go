package history

import (
	"context"
	"iter"
	"maps"
	"sync"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Failures finds messages that were given up and are not resolved.
type Failures struct {
	Store     Store
	Reporters Reporters
	UpTo      int64 // the sequence up to which events count; 0: all events

	// Resolved has the sequences up to which operators resolved the failures of groups.
	Resolved map[Kind]int64
}

// Reporters returns the queues, of some, whose consumers report `handled` events. It is called only if
// an outcome depends on that. Nil: all consumers report.
type Reporters func(ctx context.Context, of []string) (queues map[string]bool, err error)

// ReportingStore reports which consumers report.
type ReportingStore interface {
	EventStore
	Present(ctx context.Context, sel eventstore.Selection, of eventstore.FieldIn) (map[string]bool, error)
}

// NewFailures finds failures by all stored events. The handlers of routes, and consumers of
// queues that have a `handled` event, report.
func NewFailures(ctx context.Context, store ReportingStore, routes []string) (Failures, error) {
	return Failures{Store: store, Reporters: reportersOf(store, routes)}, store.Refresh(ctx)
}

// reportersOf asks the store about each queue once.
func reportersOf(store ReportingStore, routes []string) Reporters {
	var mu sync.Mutex // guards reports
	reports := map[string]bool{}
	for _, queue := range routes {
		reports[queue] = true
	}
	return func(ctx context.Context, of []string) (map[string]bool, error) {
		mu.Lock()
		defer mu.Unlock()
		unknown := eventstore.FieldIn{Field: "watership.queue"}
		for _, queue := range of {
			if _, known := reports[queue]; !known {
				unknown.Values = append(unknown.Values, queue)
			}
		}
		if len(unknown.Values) > 0 {
			handled, err := store.Present(ctx, eventstore.Selection{Query: kql.FieldIs("event.action", string(schemas.Handled))}, unknown)
			if err != nil {
				return nil, err
			}
			for _, queue := range unknown.Values {
				reports[queue] = handled[queue]
			}
		}
		return maps.Clone(reports), nil
	}
}

// chunkSize is the number of failures whose resolutions are read at first, for callers that stop
// early, and maxChunkSize the number later on: each chunk costs a few requests.
const (
	chunkSize    = 1000
	maxChunkSize = 4000
)

// Open yields the failures that match a query and are not resolved, in the order of
// their sequences; with either, only those that have one of its values. It reads some
// thousand at a time with the events that decide about them, so its memory does not
// grow with their number.
func (f Failures) Open(ctx context.Context, node kql.Node, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	return f.OpenAfter(ctx, node, eventstore.Cursor{}, either...)
}

// OpenAfter is Open for the failures after a cursor.
func (f Failures) OpenAfter(ctx context.Context, node kql.Node, after eventstore.Cursor, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	return func(yield func(eventstore.EventSummary, error) bool) {
		for failure, err := range f.all(ctx, node, after, either...) {
			if (err != nil || !failure.Resolved()) && !yield(failure.EventSummary, err) || err != nil {
				return
			}
		}
	}
}

// failure is a message that was given up, and its resolution.
type failure struct {
	eventstore.EventSummary
	resolution
}

// all yields the failures after a cursor that match a query, those that are resolved, too.
func (f Failures) all(ctx context.Context, node kql.Node, after eventstore.Cursor, either ...eventstore.FieldIn) iter.Seq2[failure, error] {
	selection := eventstore.Selection{Query: kql.And{node, GivenUp()}, After: after, UpTo: f.UpTo}
	return f.withResolutions(ctx, f.Store.Summaries(ctx, selection, either...))
}

// withResolutions yields failures with their resolutions. It asks for these some thousand at a time.
func (f Failures) withResolutions(ctx context.Context, failures iter.Seq2[eventstore.EventSummary, error]) iter.Seq2[failure, error] {
	return func(yield func(failure, error) bool) {
		size := chunkSize
		chunk := make([]eventstore.EventSummary, 0, size)
		for summary, err := range failures {
			if err != nil {
				yield(failure{}, err)
				return
			}
			if chunk = append(chunk, summary); len(chunk) < size {
				continue
			}
			if !f.yieldAll(ctx, chunk, yield) {
				return
			}
			chunk, size = chunk[:0], min(2*size, maxChunkSize)
		}
		f.yieldAll(ctx, chunk, yield)
	}
}

// yieldAll yields the failures of a chunk with their resolutions. It returns false after an
// error, and when the consumer of the sequence stops.
func (f Failures) yieldAll(ctx context.Context, chunk []eventstore.EventSummary, yield func(failure, error) bool) bool {
	found, err := resolutions(ctx, f.Store, chunk, f.UpTo, f.Reporters)
	if err != nil {
		yield(failure{}, err)
		return false
	}
	for i, summary := range chunk {
		if !yield(failure{summary, found[i]}, nil) {
			return false
		}
	}
	return true
}

// GivenUp returns a query for `poisoned` events, including those in quarantine.
func GivenUp() kql.Node { return withActions(schemas.Poisoned) }
