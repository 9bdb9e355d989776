package indexer

import (
	"context"
	"maps"
	"slices"

	"github.com/watershipmq/watership/eventstore"
)

// dropWritten returns the items without those that a request stored although its
// answer was lost: sent again after a rollover they would be stored twice.
func (x *Indexer) dropWritten(ctx context.Context, budget *retryBudget, items []*item) (rest []*item, err error) {
	ids := make([]string, len(items))
	for i, it := range items {
		ids[i] = it.document.ID
	}
	stored, err := x.lookupSequences(ctx, budget, ids)
	if err != nil {
		return nil, err
	}
	for _, it := range items {
		if stored[it.document.ID] != it.sequence {
			rest = append(rest, it)
		}
	}
	return rest, nil
}

// lookupSequences returns the sequences of the events that the store has, by id.
func (x *Indexer) lookupSequences(ctx context.Context, budget *retryBudget, ids []string) (byID map[string]int64, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var found map[string]eventstore.DocumentID
	err = budget.do(ctx, func() (err error) {
		found, err = x.cfg.Store.Find(ctx, ids)
		return err
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var sequences map[eventstore.DocumentID]int64
	err = budget.do(ctx, func() (err error) {
		sequences, err = x.cfg.Store.Sequences(ctx, slices.Collect(maps.Values(found)))
		return err
	})
	if err != nil {
		return nil, err
	}
	byID = make(map[string]int64, len(found))
	for id, stored := range found {
		byID[id] = sequences[stored]
	}
	return byID, nil
}
