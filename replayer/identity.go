package replayer

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/keyset"
	"github.com/watershipmq/watership/schemas"
)

// identity is the key of a message at the target. A message with an id is identified
// by its fingerprint; one without an id by its `published` event, or else by its
// instance. first is the original event of a chain of replays: the events of replays
// concern the same message, even with other headers or another routing key.
func (t Target) identity(e, first eventstore.EventSummary) keyset.Key {
	place := t.scope(e)
	switch {
	case first.MessageID != "":
		return keyset.Of("id", first.Fingerprint, place)
	case first.Action == schemas.Published, first.Message == "":
		return keyset.Of("event", first.EventID, place)
	}
	return keyset.Of("instance", first.Message, place)
}

// lineage follows replays back to the original events.
type lineage struct {
	store  Store
	events map[string]eventstore.EventSummary // by event id
}

// newLineage reads the events of which the given events are replays, transitively.
func newLineage(ctx context.Context, store Store, events []eventstore.EventSummary) (lineage, error) {
	l := lineage{store, make(map[string]eventstore.EventSummary, len(events))}
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
func (l lineage) unread(events []eventstore.EventSummary) []string {
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

// first returns the original event of a chain of replays.
func (l lineage) first(e eventstore.EventSummary) eventstore.EventSummary {
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

// identify sets the message key of each candidate on a page.
func (r *Replayer) identify(ctx context.Context, target Target, page []candidate) error {
	var events []eventstore.EventSummary
	for i := range page {
		if c := &page[i]; c.err == nil {
			events = append(events, c.summary)
		}
	}
	lineage, err := newLineage(ctx, r.cfg.Store, events)
	if err != nil {
		return err
	}
	for i := range page {
		c := &page[i]
		first := lineage.first(c.summary)
		c.messageKey, c.originFingerprint = target.identity(c.summary, first), first.Fingerprint
	}
	return nil
}
