package indexer

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// item is the document of an event for the store, with the fields of the event that the indexer
// needs. The whole event would take as much memory again, full of pointers for the garbage
// collector; event reads it from the document.
type item struct {
	document          schemas.Document
	action            schemas.Action
	time              time.Time
	sequence          int64
	idFromContent     bool // see schemas.Event.IDFromContent; false once the id is made unique
	redelivered       bool
	earlierDeliveries int64 // if the queue counts them, as quorum queues do

	waiting *schemas.Event // that has no document yet, since its redaction needs keys; nil: it has one

	replay   string               // job of a mark that is not verified
	unmarked func() schemas.Event // the event without its replay mark; nil: no mark, or a verified one
}

// describe sets the fields that change with the event.
func (it *item) describe(e *schemas.Event) {
	it.action, it.time, it.sequence = e.Action, e.Time, e.Sequence
}

// event returns the event of the item's document.
func (it *item) event() (schemas.Event, error) {
	e, err := schemas.ParseDocument(it.document.Source)
	if err != nil {
		return schemas.Event{}, fmt.Errorf("reading an event that was to be stored: %w", err)
	}
	return e, nil
}

// replace replaces the event of the item and its document.
func (it *item) replace(format schemas.DocumentFormat, event schemas.Event) {
	stream := it.document.Stream // which may follow from a value that the event has no more
	it.document = format.Document(event)
	if event.Redacted {
		it.document.Stream = stream
	}
	it.describe(&event)
}

// change replaces the event of the item by a changed one.
func (it *item) change(format schemas.DocumentFormat, change func(schemas.Event) schemas.Event) error {
	event, err := it.event()
	if err != nil {
		return err
	}
	it.replace(format, change(event))
	return nil
}

// makeUnique gives the item an id that no other message has.
func (it *item) makeUnique(format schemas.DocumentFormat) error {
	it.idFromContent = false
	return it.change(format, schemas.Event.WithUniqueID)
}

func (it *item) setSequence(format schemas.DocumentFormat, sequence int64) error {
	return it.change(format, func(e schemas.Event) schemas.Event { return e.WithSequence(sequence) })
}

// batch is a group of events for one bulk request and one acknowledgement.
type batch struct {
	items             []item
	documents         documentBuffer
	expected          int // bytes of the documents of waiting events
	messages          int
	redeliveredEvents int
	bodyBytes         int    // bytes of the messages' bodies
	last              uint64 // delivery tag of the newest message
	acknowledger      amqp.Acknowledger
	startsRedelivered bool             // its first message was redelivered, see resequence.go
	stored            map[string]int64 // sequences of redelivered events that the store has, by id
	writeResult       chan error
	above             int64 // all its sequences are above; watermarks.mu guards it
}

// add encodes an event, or lets it wait for encode.
func (b *batch) add(format schemas.DocumentFormat, d *amqp.Delivery, event *schemas.Event) {
	if d.Redelivered {
		b.redeliveredEvents++
	}
	added := item{
		document:      schemas.Document{ID: event.EventID, Stream: format.Stream(*event)},
		idFromContent: event.IDFromContent(), redelivered: d.Redelivered, earlierDeliveries: earlierDeliveries(d),
	}
	if format.Prepare == nil {
		added.document.Source = b.documents.append(format, event)
	} else {
		waiting := *event
		added.waiting = &waiting
		b.expected += expectedSize(event)
	}
	added.describe(event)
	b.items = append(b.items, added)
}

// encode makes the documents of events that have none yet, whose keys it asks for within a budget.
func (b *batch) encode(ctx context.Context, format schemas.DocumentFormat, budget *retryBudget) error {
	var events []schemas.Event
	for i := range b.items {
		if e := b.items[i].waiting; e != nil {
			events = append(events, *e)
		}
	}
	if len(events) == 0 {
		return nil
	}
	format, err := budget.formatFor(ctx, format, events)
	if err != nil {
		return err
	}
	for i := range b.items {
		if it := &b.items[i]; it.waiting != nil {
			it.document.Source, it.waiting = b.documents.append(format, it.waiting), nil
		}
	}
	b.expected = 0
	return nil
}

// documentBytes returns the bytes of all documents, also of those that are not made yet.
func (b *batch) documentBytes() int { return b.documents.bytes + b.expected }

// setUnmarked sets the function that returns the last added event without the mark of a
// replay, for the case that the mark is forged.
func (b *batch) setUnmarked(replay string, unmarked func() schemas.Event) {
	last := &b.items[len(b.items)-1]
	last.replay, last.unmarked = replay, unmarked
}

// earlierDeliveries returns the number of earlier deliveries of a message
// (https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling).
func earlierDeliveries(d *amqp.Delivery) int64 {
	if !d.Redelivered {
		return 0
	}
	count, _ := d.Headers["x-delivery-count"].(int64)
	return count
}

// countMessage counts the message of the events that were just added.
func (b *batch) countMessage(d *amqp.Delivery) {
	b.messages++
	b.bodyBytes += len(d.Body)
	b.last, b.acknowledger = d.DeliveryTag, d.Acknowledger
}

// allRedelivered reports whether every message was redelivered: more of them may follow.
func (b *batch) allRedelivered() bool {
	return b.startsRedelivered && b.items[len(b.items)-1].redelivered
}

func (b *batch) highestSequence() (sequence int64) {
	for i := range b.items {
		sequence = max(sequence, b.items[i].sequence)
	}
	return sequence
}

// lowestSequence returns the lowest sequence that the batch may add to the store.
func (b *batch) lowestSequence() int64 {
	lowest := b.items[0].sequence
	for i := range b.items {
		lowest = min(lowest, b.items[i].sequence)
	}
	return lowest
}

// bytes returns the memory of the bodies, which arrived, and of the documents.
func (b *batch) bytes() int { return b.bodyBytes + b.documentBytes() }

// reset empties the batch for the next messages.
func (b *batch) reset() {
	clear(b.items) // frees the messages
	b.documents.reset()
	*b = batch{items: b.items[:0], documents: b.documents, writeResult: b.writeResult}
}
