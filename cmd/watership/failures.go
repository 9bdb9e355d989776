package main

import (
	"context"
	"iter"
	"slices"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// failures finds messages that were given up, and of those the ones that are
// still to be dealt with. A failure is resolved when
//
//   - a later `handled` event from the queue that failed is of the same
//     instance, or of a replay of any event of that message;
//   - it was discarded;
//   - at a queue whose consumer does not report to us: it was replayed;
//   - a replay of it was given up at the same queue: that is a failure of its
//     own, and the message is listed once.
//
// It reads a thousand failures at a time with the events around them, so its
// memory does not grow with their number.
type failures struct {
	store   eventStore
	reports map[string]bool // queues whose consumers report
}

const (
	failuresAtOnce = 1000
	idsAtOnce      = 10_000
)

func (s system) failures(ctx context.Context, store eventStore) (failures, error) {
	f := failures{store, map[string]bool{}}
	if err := store.Refresh(ctx); err != nil {
		return f, err
	}
	for _, route := range s.cfg.Routes {
		f.reports[route.Queue] = true
	}
	handled, err := store.Top(ctx, schemas.Selection{Query: is("event.action", string(schemas.Handled))}, "watership.queue", topValues)
	for _, queue := range handled.Values {
		f.reports[queue.Text] = true
	}
	return f, err
}

// open gives the failures among the events of a query that are not resolved, in
// the order in which they were given up; with either, only those that have one
// of its values.
func (f failures) open(ctx context.Context, node query.Node, either ...schemas.Among) iter.Seq2[schemas.Fact, error] {
	given := schemas.Selection{Query: query.And{node, givenUp()}}
	return func(yield func(schemas.Fact, error) bool) {
		chunk := make([]schemas.Fact, 0, failuresAtOnce)
		give := func() bool {
			left, err := f.unresolved(ctx, chunk)
			if err != nil {
				yield(schemas.Fact{}, err)
				return false
			}
			chunk = chunk[:0]
			for _, fact := range left {
				if !yield(fact, nil) {
					return false
				}
			}
			return true
		}
		for fact, err := range f.store.Facts(ctx, given, either...) {
			if err != nil {
				yield(schemas.Fact{}, err)
				return
			}
			if chunk = append(chunk, fact); len(chunk) == failuresAtOnce && !give() {
				return
			}
		}
		give()
	}
}

// unresolved leaves out of some failures those that are resolved.
func (f failures) unresolved(ctx context.Context, given []schemas.Fact) ([]schemas.Fact, error) {
	if len(given) == 0 {
		return nil, nil
	}
	c := newCase(given, f.reports)
	for fact, err := range f.store.Facts(ctx, schemas.Selection{}, c.related()...) {
		if err != nil {
			return nil, err
		}
		c.see(fact)
	}
	for ids := range slices.Chunk(c.names(), idsAtOnce) {
		about := schemas.Among{Field: "watership.replay.of", Values: ids}
		for fact, err := range f.store.Facts(ctx, schemas.Selection{}, about) {
			if err != nil {
				return nil, err
			}
			c.seeReplay(fact)
		}
	}
	return c.left(), nil
}
