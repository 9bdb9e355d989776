package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// Life has the newest events of a message, in order, without bodies and headers.
type Life struct {
	Events []schemas.Event
	More   bool // there are older ones
}

// Limits of Find.
const (
	MaxLives  = 20  // messages with the same id
	MaxEvents = 500 // of a message
)

// Lives has the messages with an id.
type Lives struct {
	ID   string
	List []Life
	More bool // there are more than these
}

// CheckedStore distinguishes an empty result from a store that cannot be searched.
type CheckedStore interface {
	EventStore
	Check(ctx context.Context) error
}

// Find returns the messages with an id: a message id, a fingerprint, an instance id or
// the id of an event.
func Find(ctx context.Context, store CheckedStore, id string) (Lives, error) {
	found := Lives{ID: id}
	seen := map[string]bool{}
	for summary, err := range store.Summaries(ctx, eventstore.Selection{Query: withID(id)}) {
		switch {
		case err != nil:
			return found, err
		case seen[messageKey(summary)]:
			continue
		case len(found.List) == MaxLives:
			found.More = true
			return found, nil
		}
		seen[messageKey(summary)] = true
		l, err := readLife(ctx, store, summary)
		if err != nil {
			return found, err
		}
		for _, e := range l.Events {
			seen[messageKey(eventstore.Summarize(e))] = true
		}
		if len(l.Events) > 0 {
			found.List = append(found.List, l)
		}
	}
	if len(found.List) > 0 {
		return found, nil
	}
	if err := store.Check(ctx); err != nil {
		return found, err
	}
	missing := &NotFoundError{ID: id}
	for _, err := range store.Summaries(ctx, eventstore.Selection{Query: kql.FieldIs("messaging.message.conversation_id", id)}) {
		if err != nil {
			return found, err
		}
		missing.Correlates = true
		break
	}
	return found, missing
}

// NotFoundError reports that no message or event has an id.
type NotFoundError struct {
	ID         string
	Correlates bool // messages have it as their correlation id, as messages of Celery have the id of a task
}

// Error implements error.
func (e *NotFoundError) Error() string {
	if e.Correlates {
		return fmt.Sprintf("no message or event has the id %q, but it is a correlation id: search for conversation_id: %[1]q", e.ID)
	}
	return fmt.Sprintf("no message or event has the id %q: expected a message id, a fingerprint or the id of an event", e.ID)
}

// messageKey returns the key of an event's message: its fingerprint, or the id of an
// event that was recorded without one.
func messageKey(f eventstore.EventSummary) string { return cmp.Or(f.Fingerprint, f.EventID) }

// readLife reads the events of a message, and of its replays with other headers, which
// have their own fingerprints.
func readLife(ctx context.Context, store EventStore, of eventstore.EventSummary) (l Life, err error) {
	own := kql.FieldIs("watership.fingerprint", of.Fingerprint)
	if of.Fingerprint == "" {
		own = kql.FieldIs("event.id", of.EventID)
	}
	if err := l.read(ctx, store, own); err != nil {
		return Life{}, err
	}
	for generation := l.Events; len(generation) > 0; {
		if generation, err = l.readReplays(ctx, store, kql.Not{Node: own}, generation); err != nil {
			return Life{}, err
		}
	}
	l.Events = inOrder(l.Events)
	return l, nil
}

// readReplays adds the events of a query that replays of some events have, and returns those
// that are new: a replay may fail and be replayed again.
func (l *Life) readReplays(ctx context.Context, store EventStore, node kql.Node, of []schemas.Event) (added []schemas.Event, err error) {
	known := map[string]bool{}
	for _, e := range l.Events {
		known[e.EventID] = true
	}
	replays := eventstore.FieldIn{Field: "watership.replay.of"}
	for _, e := range of {
		replays.Values = append(replays.Values, e.EventID)
	}
	var others kql.Or
	for summary, err := range store.Summaries(ctx, eventstore.Selection{Query: node}, replays) {
		if err != nil {
			return nil, err
		}
		if known[summary.EventID] {
			continue
		}
		if len(others) == MaxEvents || len(l.Events)+len(others) == 2*MaxEvents {
			l.More = true
			break
		}
		others = append(others, kql.FieldIs("event.id", summary.EventID))
	}
	if len(others) == 0 {
		return nil, nil
	}
	before := len(l.Events)
	err = l.read(ctx, store, others)
	return l.Events[before:], err
}

// read adds the newest events of a query, without bodies, headers and stack traces:
// equal messages without an id are one message here, however many there were.
func (l *Life) read(ctx context.Context, store EventStore, node kql.Node) error {
	var events []schemas.Event
	sel := eventstore.Selection{Query: node, Limit: MaxEvents + 1, WithoutBody: true}
	for event, err := range storeread.Readable(store.Events(ctx, sel)) {
		if err != nil {
			return err
		}
		if len(events) == MaxEvents {
			l.More = true
			break
		}
		event.Envelope.Headers, event.Failure.Stack = nil, ""
		events = append(events, event)
	}
	slices.Reverse(events)
	l.Events = append(l.Events, events...)
	return ctx.Err()
}

// Whole reads an event that has the body, else the first, with all stored fields.
func (l Life) Whole(ctx context.Context, store EventStore) (schemas.Event, error) {
	return Whole(ctx, store, l.WithBody())
}

// WithBody returns the first event that the store has with the body of the message, else the first. Life
// leaves out the body itself.
func (l Life) WithBody() schemas.Event {
	index := slices.IndexFunc(l.Events, func(e schemas.Event) bool { return e.BodyIn == schemas.BodyHere })
	return l.Events[max(index, 0)]
}

// Whole reads an event with the fields that Life leaves out.
func Whole(ctx context.Context, store EventStore, of schemas.Event) (schemas.Event, error) {
	for event, err := range store.Events(ctx, eventstore.Selection{Query: kql.FieldIs("event.id", of.EventID), Limit: 1}) {
		return event, err
	}
	return of, ctx.Err() // it is too old by now
}

// inOrder sorts events by the time at which they happened. If a message carries no
// time, only the time at which the tap's copy was recorded is known, which may be
// after its first failure; it was published before anything else happened to it.
func inOrder(events []schemas.Event) []schemas.Event {
	type copyOfMessage struct{ fingerprint, job string }
	first := map[copyOfMessage]time.Time{}
	for _, e := range events {
		p := copyOfMessage{e.Fingerprint, e.Replay}
		if earliest, seen := first[p]; e.RecordedAction() != schemas.Replayed && (!seen || e.Time.Before(earliest)) {
			first[p] = e.Time
		}
	}
	happened := func(e schemas.Event) time.Time {
		if e.RecordedAction() == schemas.Published && e.TimeSource == wire.TimeOfIngest {
			return first[copyOfMessage{e.Fingerprint, e.Replay}].Add(-1)
		}
		return e.Time
	}
	slices.SortStableFunc(events, func(a, b schemas.Event) int { return happened(a).Compare(happened(b)) })
	return events
}
