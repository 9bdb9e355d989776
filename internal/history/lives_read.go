package history

import (
	"context"
	"maps"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// maxPageEvents bounds the events of a page that are read at once.
const maxPageEvents = 20 * MaxStreamPage

// livesReader reads the lives of many messages at once.
type livesReader struct{ store EventStore }

// lives returns the lives of the messages with some fingerprints, in the same order.
func (r livesReader) lives(ctx context.Context, fingerprints []string) ([]Life, error) {
	lives, own := make([]Life, len(fingerprints)), kql.Or{}
	index := make(map[string]int, len(fingerprints))
	for i, fingerprint := range fingerprints {
		index[fingerprint] = i
		own = append(own, kql.FieldIs("watership.fingerprint", fingerprint))
	}
	events, whole, err := r.read(ctx, own)
	if err != nil {
		return nil, err
	}
	if !whole { // one message may have most of them
		return r.halves(ctx, fingerprints)
	}
	owner := map[string]int{} // of events, by their ids
	for _, e := range events {
		i := index[e.Fingerprint]
		lives[i].Events = append(lives[i].Events, e)
		owner[e.EventID] = i
	}
	if err := r.addCopies(ctx, lives, owner, own); err != nil {
		return nil, err
	}
	for i := range lives {
		lives[i].Events = inOrder(lives[i].Events)
	}
	return lives, nil
}

// read reads the events of a query in the order of their sequences, without bodies. whole is
// false if they are too many.
func (r livesReader) read(ctx context.Context, node kql.Node) (events []schemas.Event, whole bool, err error) {
	selection := eventstore.Selection{Query: node, Order: eventstore.BySequence, Limit: maxPageEvents + 1, WithoutBody: true}
	for e, err := range storeread.Readable(r.store.Events(ctx, selection)) {
		if err != nil {
			return nil, false, err
		}
		e.Envelope.Headers, e.Failure.Stack = nil, ""
		events = append(events, e)
	}
	return events, len(events) <= maxPageEvents, ctx.Err()
}

// addCopies adds the events of the messages that replays of the events have sent with changes.
func (r livesReader) addCopies(ctx context.Context, lives []Life, owner map[string]int, own kql.Node) error {
	isReplayed := slices.ContainsFunc(lives, func(l Life) bool {
		return slices.ContainsFunc(l.Events, func(e schemas.Event) bool { return e.RecordedAction() == schemas.Replayed })
	})
	if !isReplayed {
		return nil
	}
	var copies kql.Or
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(owner)), maxIDs) {
		ofEvents := eventstore.FieldIn{Field: "watership.replay.of", Values: ids}
		for e, err := range r.store.Summaries(ctx, eventstore.Selection{Query: kql.Not{Node: own}, Limit: maxPageEvents}, ofEvents) {
			if err != nil {
				return err
			}
			copies = append(copies, kql.FieldIs("event.id", e.EventID))
		}
	}
	for either := range slices.Chunk(copies, MaxStreamPage) {
		events, _, err := r.read(ctx, either)
		if err != nil {
			return err
		}
		for _, e := range events {
			i := owner[e.ReplayOf]
			lives[i].Events = append(lives[i].Events, e)
		}
	}
	return ctx.Err()
}

// halves reads the lives of messages that have too many events for one read: of each half at once, and of a
// single message its newest events.
func (r livesReader) halves(ctx context.Context, fingerprints []string) ([]Life, error) {
	if len(fingerprints) == 1 {
		l, err := readLife(ctx, r.store, eventstore.EventSummary{Fingerprint: fingerprints[0]})
		return []Life{l}, err
	}
	middle := len(fingerprints) / 2
	lives, err := r.lives(ctx, fingerprints[:middle])
	if err != nil {
		return nil, err
	}
	others, err := r.lives(ctx, fingerprints[middle:])
	return append(lives, others...), err
}
