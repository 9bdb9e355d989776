package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// life is a message and its events, in order.
type life struct {
	fingerprint string
	events      []schemas.Event
}

// mostLives is how many messages show prints of those that share an id.
const mostLives = 20

// lives are the messages that an id names.
type lives struct {
	id   string
	list []life
	more bool // there are more than these
}

func findLives(ctx context.Context, store eventStore, id string) (lives, error) {
	found := lives{id: id}
	seen := map[string]bool{}
	for fact, err := range store.Facts(ctx, schemas.Selection{Query: about(id)}) {
		switch {
		case err != nil:
			return found, err
		case seen[fact.Fingerprint]:
			continue
		case len(found.list) == mostLives:
			found.more = true
			return found, nil
		}
		l, err := readLife(ctx, store, fact.Fingerprint)
		if err != nil {
			return found, err
		}
		for _, e := range l.events {
			seen[e.Fingerprint] = true
		}
		found.list = append(found.list, l)
	}
	if len(found.list) > 0 {
		return found, nil
	}
	if err := store.Check(ctx); err != nil {
		return found, err
	}
	return found, fmt.Errorf("no message or event is called %q: expected a message id, a fingerprint or the id of an event", id)
}

// readLife reads the events of a message, and of what a replay made of it with
// other headers, which has a fingerprint of its own.
func readLife(ctx context.Context, store eventStore, fingerprint string) (life, error) {
	events, err := collect(ctx, store.Events(ctx, schemas.Selection{Query: is("watership.fingerprint", fingerprint), Order: schemas.BySequence}))
	if err != nil {
		return life{}, err
	}
	replays := schemas.Among{Field: "watership.replay.of"}
	for _, e := range events {
		replays.Values = append(replays.Values, e.EventID)
	}
	var others query.Or
	for fact, err := range store.Facts(ctx, schemas.Selection{Query: query.Not{Node: is("watership.fingerprint", fingerprint)}}, replays) {
		if err != nil {
			return life{}, err
		}
		others = append(others, is("event.id", fact.EventID))
	}
	if len(others) > 0 {
		changed, err := collect(ctx, store.Events(ctx, schemas.Selection{Query: others, Order: schemas.BySequence}))
		if err != nil {
			return life{}, err
		}
		events = append(events, changed...)
	}
	return life{fingerprint, inOrder(events)}, nil
}

// inOrder sorts events by when they happened. Of a message that carries no time
// it is known only when the tap's copy was recorded, which may be after its
// first failure; it was published before anything else happened to it.
func inOrder(events []schemas.Event) []schemas.Event {
	type passage struct{ fingerprint, job string }
	first := map[passage]time.Time{}
	for _, e := range events {
		p := passage{e.Fingerprint, e.Replay}
		if earliest, seen := first[p]; e.Action != schemas.Replayed && (!seen || e.Time.Before(earliest)) {
			first[p] = e.Time
		}
	}
	happened := func(e schemas.Event) time.Time {
		if e.Action == schemas.Published && e.TimeSource == schemas.TimeTaken {
			return first[passage{e.Fingerprint, e.Replay}].Add(-1)
		}
		return e.Time
	}
	slices.SortStableFunc(events, func(a, b schemas.Event) int { return happened(a).Compare(happened(b)) })
	return events
}

// collect reads a few events into memory.
func collect(ctx context.Context, events iter.Seq2[schemas.Event, error]) ([]schemas.Event, error) {
	var list []schemas.Event
	for event, err := range events {
		if err != nil {
			return nil, err
		}
		list = append(list, event)
	}
	return list, ctx.Err()
}
