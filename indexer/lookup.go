package indexer

import (
	"context"
	"maps"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// unanswered leaves out what a request has stored that got no answer: after a
// rollover it would be stored once more.
func (x *Indexer) dropWritten(ctx context.Context, patience *retryBudget, items []*item) (rest []*item, err error) {
	ids := make([]string, len(items))
	for i, it := range items {
		ids[i] = it.document.ID
	}
	known, err := x.lookupSequences(ctx, patience, ids)
	for _, it := range items {
		if known[it.document.ID] != it.event.Sequence {
			rest = append(rest, it)
		}
	}
	return rest, err
}

// lookUp gives the sequences of the events that are in the store, by id.
func (x *Indexer) lookupSequences(ctx context.Context, patience *retryBudget, ids []string) (known map[string]int64, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var found map[string]schemas.Stored
	err = patience.do(ctx, func() (err error) {
		found, err = x.cfg.Store.Find(ctx, ids)
		return err
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var sequences map[schemas.Stored]int64
	err = patience.do(ctx, func() (err error) {
		sequences, err = x.cfg.Store.Sequences(ctx, slices.Collect(maps.Values(found)))
		return err
	})
	known = make(map[string]int64, len(found))
	for id, at := range found {
		known[id] = sequences[at]
	}
	return known, err
}
