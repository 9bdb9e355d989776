package history

import (
	"cmp"
	"context"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// idFields returns the fields whose values identify a message.
func idFields() []string {
	return []string{"messaging.message.id", "watership.message", "watership.fingerprint", "event.id"}
}

// withID returns a query for the events of a message by any of its ids.
func withID(id string) kql.Node {
	var either kql.Or
	for _, field := range idFields() {
		either = append(either, kql.FieldIs(field, id))
	}
	return either
}

// maxIDs is below the limit of values in one terms query.
const maxIDs = 10_000

// withIDs selects the events of messages by any of their ids.
func withIDs(ids []string) []eventstore.FieldIn {
	var either []eventstore.FieldIn
	for _, field := range idFields() {
		either = append(either, eventstore.FieldIn{Field: field, Values: ids})
	}
	return either
}

// UnknownIDs returns the ids that no event in the store has.
func UnknownIDs(ctx context.Context, store Store, ids []string) ([]string, error) {
	known := map[string]bool{}
	for chunk := range slices.Chunk(ids, maxIDs) {
		for e, err := range store.Summaries(ctx, eventstore.Selection{}, withIDs(chunk)...) {
			if err != nil {
				return nil, err
			}
			known[e.MessageID], known[e.Message], known[e.Fingerprint], known[e.EventID] = true, true, true, true
		}
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return known[id] }), nil
}

// OpenByID returns the failures that match a query, have one of the ids and are not
// resolved; without ids, all that match the query.
func (f Failures) OpenByID(ctx context.Context, node kql.Node, ids []string) ([]eventstore.EventSummary, error) {
	if len(ids) == 0 {
		return f.list(ctx, node)
	}
	var all []eventstore.EventSummary
	for chunk := range slices.Chunk(ids, maxIDs) {
		found, err := f.list(ctx, node, withIDs(chunk)...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b eventstore.EventSummary) int { return cmp.Compare(a.EventID, b.EventID) })
	return slices.CompactFunc(all, func(a, b eventstore.EventSummary) bool { return a.EventID == b.EventID }), nil
}

func (f Failures) list(ctx context.Context, node kql.Node, either ...eventstore.FieldIn) ([]eventstore.EventSummary, error) {
	var all []eventstore.EventSummary
	for failure, err := range f.Open(ctx, node, either...) {
		if err != nil {
			return nil, err
		}
		all = append(all, failure)
	}
	return all, nil
}

// EventIDs returns the event ids of failures.
func EventIDs(failures []eventstore.EventSummary) []string {
	ids := make([]string, len(failures))
	for i, failure := range failures {
		ids[i] = failure.EventID
	}
	return ids
}
