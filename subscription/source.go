package subscription

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/eventstore"
)

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
