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

// messages reads what became of messages of a stream.
func (r *streamReader) messages(ctx context.Context, entries []*streamEntry, reporters Reporters) ([]StreamMessage, error) {
	messages := make([]StreamMessage, 0, len(entries))
	for chunk := range slices.Chunk(entries, MaxStreamPage) {
		lives, err := r.lives(ctx, chunk)
		if err != nil {
			return nil, err
		}
		queues, err := queuesOf(ctx, r.store, lives, reporters)
		if err != nil {
			return nil, err
		}
		for i, entry := range chunk {
			messages = append(messages, entry.message(lives[i], queues[i]))
		}
	}
	return messages, nil
}

func (e *streamEntry) message(l Life, queues []AtQueue) StreamMessage {
	m := StreamMessage{Sequence: e.sequence, Time: e.time, Fingerprint: e.fingerprint, Queues: queues}
	if e.stream.HasVersion {
		m.Version = &e.stream.Version
	}
	if len(l.Events) > 0 {
		first := l.Events[0]
		m.Time, m.MessageID, m.Type = first.Time, first.Envelope.Properties.MessageID, first.Envelope.Properties.Type
		m.Exchange, m.RoutingKey = first.Envelope.Exchange, first.Envelope.RoutingKey
		m.ByPriority = slices.ContainsFunc(l.Events, func(e schemas.Event) bool { return e.ByPriority })
	}
	return m
}

// maxPageEvents bounds the events of a page that are read at once.
const maxPageEvents = 20 * MaxStreamPage

// lives reads the events of some messages.
func (r *streamReader) lives(ctx context.Context, entries []*streamEntry) ([]Life, error) {
	lives, own := make([]Life, len(entries)), kql.Or{}
	index := make(map[string]int, len(entries))
	for i, e := range entries {
		index[e.fingerprint] = i
		own = append(own, kql.FieldIs("watership.fingerprint", e.fingerprint))
	}
	events, whole, err := r.read(ctx, own)
	if err != nil {
		return nil, err
	}
	if !whole { // one message has most of them
		return r.livesOneByOne(ctx, entries)
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
func (r *streamReader) read(ctx context.Context, node kql.Node) (events []schemas.Event, whole bool, err error) {
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
func (r *streamReader) addCopies(ctx context.Context, lives []Life, owner map[string]int, own kql.Node) error {
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

func (r *streamReader) livesOneByOne(ctx context.Context, entries []*streamEntry) ([]Life, error) {
	lives := make([]Life, len(entries))
	for i, e := range entries {
		var err error
		if lives[i], err = readLife(ctx, r.store, eventstore.EventSummary{Fingerprint: e.fingerprint}); err != nil {
			return nil, err
		}
	}
	return lives, nil
}
