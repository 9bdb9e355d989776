// Package lineage follows chains of replays: the event of a replay names the event that was
// replayed, which may be the event of a replay, too.
package lineage

import (
	"context"
	"fmt"
	"iter"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Store reads events by their ids.
type Store interface {
	Summaries(ctx context.Context, selection eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]
}

// Lineage follows replays back to the original events.
type Lineage struct {
	store  Store
	events map[string]eventstore.EventSummary // by event id
}

// Read reads the events of which the given events are replays, transitively.
func Read(ctx context.Context, store Store, events []eventstore.EventSummary) (Lineage, error) {
	l := Lineage{store, make(map[string]eventstore.EventSummary, len(events))}
	for _, e := range events {
		l.events[e.EventID] = e
	}
	for ids := l.unread(events); len(ids) > 0; {
		var parents []eventstore.EventSummary
		for summary, err := range store.Summaries(ctx, eventstore.Selection{}, eventstore.FieldIn{Field: "event.id", Values: ids}) {
			if err != nil {
				return l, fmt.Errorf("looking up the replayed events: %w", err)
			}
			l.events[summary.EventID] = summary
			parents = append(parents, summary)
		}
		ids = l.unread(parents)
	}
	return l, nil
}

// unread returns the ids of replayed events that were not read yet.
func (l Lineage) unread(events []eventstore.EventSummary) []string {
	var ids []string
	seen := map[string]bool{"": true}
	for _, e := range events {
		if _, known := l.events[e.ReplayOf]; !known && !seen[e.ReplayOf] {
			seen[e.ReplayOf] = true
			ids = append(ids, e.ReplayOf)
		}
	}
	return ids
}

// First returns the original event of a chain of replays.
func (l Lineage) First(e eventstore.EventSummary) eventstore.EventSummary {
	for range len(l.events) { // bounded, since an event may claim to be a replay of itself
		if e.ReplayOf == "" {
			return e
		}
		before, known := l.events[e.ReplayOf]
		if !known {
			return missingOrigin(e)
		}
		e = before
	}
	return e
}

// missingOrigin stands for an original event that is no longer in the store.
// `replayed` and `discarded` events name its instance.
func missingOrigin(e eventstore.EventSummary) eventstore.EventSummary {
	first := eventstore.EventSummary{EventID: e.ReplayOf, MessageID: e.MessageID, Fingerprint: e.Fingerprint}
	if e.Action == schemas.Replayed || e.Action == schemas.Discarded {
		first.Message = e.Message
	}
	return first
}
