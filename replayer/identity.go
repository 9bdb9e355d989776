package replayer

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/schemas"
)

// identity names a message at the place to which the target sends it. A message
// with an id is known by its content; of those without, each publishing is a
// message, and else each instance. first is the event that the first replay of the
// message was of: what replays have led to is about the same message, also with
// other headers or another routing key.
func (t Target) identity(e, first schemas.Fact) key {
	place := t.scope(e)
	switch {
	case first.MessageID != "":
		return keyOf("id", first.Fingerprint, place)
	case first.Action == schemas.Published, first.Message == "":
		return keyOf("event", first.EventID, place)
	}
	return keyOf("instance", first.Message, place)
}

// lineage follows replays back to the events that they were of.
type lineage struct {
	store Store
	known map[string]schemas.Fact // by event id
}

// newLineage reads what led to some events, and what led to that.
func newLineage(ctx context.Context, store Store, events []schemas.Fact) (lineage, error) {
	l := lineage{store, make(map[string]schemas.Fact, len(events))}
	for _, e := range events {
		l.known[e.EventID] = e
	}
	for wanted := l.missing(events); len(wanted) > 0; {
		var found []schemas.Fact
		for fact, err := range store.Summaries(ctx, schemas.Selection{}, schemas.Among{Field: "event.id", Values: wanted}) {
			if err != nil {
				return l, fmt.Errorf("looking up what was replayed: %w", err)
			}
			l.known[fact.EventID] = fact
			found = append(found, fact)
		}
		wanted = l.missing(found)
	}
	return l, nil
}

// missing are the ids of the events that led to some, as far as they are not known.
func (l lineage) missing(events []schemas.Fact) []string {
	var ids []string
	seen := map[string]bool{"": true}
	for _, e := range events {
		if _, known := l.known[e.ReplayOf]; !known && !seen[e.ReplayOf] {
			seen[e.ReplayOf] = true
			ids = append(ids, e.ReplayOf)
		}
	}
	return ids
}

// first is the event that the first of the replays that led to an event was of.
func (l lineage) first(e schemas.Fact) schemas.Fact {
	for range len(l.known) { // bounded, since an event may claim to be a replay of itself
		if e.ReplayOf == "" {
			return e
		}
		before, known := l.known[e.ReplayOf]
		if !known {
			return missingOrigin(e)
		}
		e = before
	}
	return e
}

// missingOrigin is the event that another was a replay of and that the store has no more, as
// far as the other tells: a `replayed` and a `discarded` event have its instance.
func missingOrigin(e schemas.Fact) schemas.Fact {
	first := schemas.Fact{EventID: e.ReplayOf, MessageID: e.MessageID, Fingerprint: e.Fingerprint}
	if e.Action == schemas.Replayed || e.Action == schemas.Discarded {
		first.Message = e.Message
	}
	return first
}

// identify finds the message of each fact on a page.
func (r *Replayer) identify(ctx context.Context, target Target, page []candidate) error {
	var events []schemas.Fact
	for i := range page {
		if c := &page[i]; c.err == nil {
			events = append(events, c.fact)
		}
	}
	lineage, err := newLineage(ctx, r.cfg.Store, events)
	if err != nil {
		return err
	}
	for i := range page {
		c := &page[i]
		first := lineage.first(c.fact)
		c.message, c.originFingerprint = target.identity(c.fact, first), first.Fingerprint
	}
	return nil
}
