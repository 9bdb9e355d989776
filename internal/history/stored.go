package history

import (
	"context"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/backoff"
)

const (
	storedTimeout = 10 * time.Second

	idChunk = 500 // ids in one query
)

// storedPauses are short at first: an indexer that has little to do stores an event within milliseconds.
var storedPauses = backoff.Backoff{Min: 50 * time.Millisecond, Max: 500 * time.Millisecond}

// RefreshedCounter counts events, after Refresh also the latest ones.
type RefreshedCounter interface {
	Counter
	Refresh(ctx context.Context) error
}

// AwaitStored waits until the store has the events with some ids. After ten seconds it returns
// how many are missing: probably no server stores them.
func AwaitStored(ctx context.Context, store RefreshedCounter, ids []string) (missing int, err error) {
	deadline := time.Now().Add(storedTimeout)
	for looks := 1; ; looks++ {
		missing, err := countMissing(ctx, store, ids)
		if err != nil || missing == 0 || time.Now().After(deadline) {
			return missing, err
		}
		if err := storedPauses.Wait(ctx, looks, 0); err != nil {
			return missing, err
		}
	}
}

func countMissing(ctx context.Context, store RefreshedCounter, ids []string) (int, error) {
	if err := store.Refresh(ctx); err != nil {
		return 0, err
	}
	missing := len(ids)
	for chunk := range slices.Chunk(ids, idChunk) {
		var either kql.Or
		for _, id := range chunk {
			either = append(either, kql.FieldIs("event.id", id))
		}
		n, err := store.Count(ctx, eventstore.Selection{Query: either})
		if err != nil {
			return 0, err
		}
		missing -= int(n)
	}
	return max(0, missing), nil
}
