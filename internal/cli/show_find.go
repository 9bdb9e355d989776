package cli

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/schemas"
)

// life holds a message and its events, in order, without bodies and headers.
type life struct {
	events []schemas.Event
	more   bool // there are older ones
}

const (
	mostLives  = 20  // messages with the same id that show prints
	mostEvents = 500 // events of a message that show prints, the newest
)

// lives holds the messages that an id names.
type lives struct {
	id   string
	list []life
	more bool // there are more than these
}

func findLives(ctx context.Context, store app.EventStore, id string) (lives, error) {
	found := lives{id: id}
	seen := map[string]bool{}
	for fact, err := range store.Summaries(ctx, eventstore.Selection{Query: about(id)}) {
		switch {
		case err != nil:
			return found, err
		case seen[messageOf(fact)]:
			continue
		case len(found.list) == mostLives:
			found.more = true
			return found, nil
		}
		seen[messageOf(fact)] = true
		l, err := readLife(ctx, store, fact)
		if err != nil {
			return found, err
		}
		for _, e := range l.events {
			seen[messageOf(eventstore.Summarize(e))] = true
		}
		if len(l.events) > 0 {
			found.list = append(found.list, l)
		}
	}
	if len(found.list) > 0 {
		return found, nil
	}
	if err := store.Check(ctx); err != nil {
		return found, err
	}
	return found, fmt.Errorf("no message or event is called %q: expected a message id, a fingerprint or the id of an event", id)
}

// messageOf returns the fingerprint of an event's message. An event that was recorded
// without one stands for itself.
func messageOf(f eventstore.EventSummary) string { return cmp.Or(f.Fingerprint, f.EventID) }

// readLife reads the events of a message, and of its replays with other headers, which
// have fingerprints of their own.
func readLife(ctx context.Context, store app.EventStore, of eventstore.EventSummary) (l life, err error) {
	its := is("watership.fingerprint", of.Fingerprint)
	if of.Fingerprint == "" {
		its = is("event.id", of.EventID)
	}
	if err := l.read(ctx, store, its); err != nil {
		return life{}, err
	}
	replays := eventstore.FieldIn{Field: "watership.replay.of"}
	for _, e := range l.events {
		replays.Values = append(replays.Values, e.EventID)
	}
	var others kql.Or
	for fact, err := range store.Summaries(ctx, eventstore.Selection{Query: kql.Not{Node: its}}, replays) {
		if err != nil {
			return life{}, err
		}
		if others = append(others, is("event.id", fact.EventID)); len(others) == mostEvents {
			l.more = true
			break
		}
	}
	if len(others) > 0 {
		if err := l.read(ctx, store, others); err != nil {
			return life{}, err
		}
	}
	l.events = inOrder(l.events)
	return l, nil
}

// read adds the newest events of a query, without bodies, headers and stack traces,
// which show prints of one event only: equal messages without an id are one message
// here, however many there were.
func (l *life) read(ctx context.Context, store app.EventStore, node kql.Node) error {
	var events []schemas.Event
	sel := eventstore.Selection{Query: node, Limit: mostEvents + 1, WithoutBody: true}
	for event, err := range store.Events(ctx, sel) {
		if err != nil {
			return err
		}
		if len(events) == mostEvents {
			l.more = true
			break
		}
		event.Envelope.Headers, event.Failure.Stack = nil, ""
		events = append(events, event)
	}
	slices.Reverse(events)
	l.events = append(l.events, events...)
	return ctx.Err()
}

// whole reads an event that has the body, else the first, with all that is stored.
func (l life) whole(ctx context.Context, store app.EventStore) (schemas.Event, error) {
	with := slices.IndexFunc(l.events, func(e schemas.Event) bool { return e.BodyIn == schemas.BodyHere })
	return readWhole(ctx, store, l.events[max(with, 0)])
}

// readWhole reads an event with the fields that life leaves out.
func readWhole(ctx context.Context, store app.EventStore, of schemas.Event) (schemas.Event, error) {
	for event, err := range store.Events(ctx, eventstore.Selection{Query: is("event.id", of.EventID), Limit: 1}) {
		return event, err
	}
	return of, ctx.Err() // it is too old by now
}

// inOrder sorts events by the time at which they happened. If a message carries no
// time, only the time at which the tap's copy was recorded is known, which may be
// after its first failure; it was published before anything else happened to it.
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
		if e.Action == schemas.Published && e.TimeSource == schemas.TimeOfIngest {
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
