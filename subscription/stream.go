package subscription

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Stream returns the published events of a stream that the store has and that match the query, in the order
// of their versions; those without a version come last, as they were recorded. A message that was recorded
// several times is there once. Part of a stream is found by a query, such as watership.stream.version <= 7 or
// @timestamp < "2026-05-04T03:00:00Z".
//
// The store has a message a second or two after its publish, and a message that is too large for it has no
// body here (Event.BodyIn). So a command does not decide on what Stream returns: see package outbox. An error
// about a document that cannot be read ends it.
func (r Reader) Stream(ctx context.Context, id string) ([]schemas.Event, error) {
	if err := r.Store.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("loading stream %s: %w", id, err)
	}
	query := kql.And{r.query(), kql.FieldIs("watership.stream.id", id), kql.FieldIs("event.action", string(schemas.Published))}
	var events []schemas.Event
	seen := map[string]bool{} // fingerprints
	for event, err := range r.Store.Events(ctx, eventstore.Selection{Query: query, Order: eventstore.BySequence}) {
		if err != nil {
			return nil, fmt.Errorf("loading stream %s: %w", id, err)
		}
		if event.Replay == "" && !seen[event.Fingerprint] {
			seen[event.Fingerprint] = true
			events = append(events, event)
		}
	}
	slices.SortStableFunc(events, func(a, b schemas.Event) int { return cmp.Compare(versionOf(a), versionOf(b)) })
	return events, ctx.Err()
}

func versionOf(e schemas.Event) int64 {
	if e.Stream.HasVersion {
		return e.Stream.Version
	}
	return math.MaxInt64
}
