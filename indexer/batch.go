package indexer

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// item is an event and its document for the store.
type item struct {
	event             schemas.Event
	document          schemas.Document
	redelivered       bool
	earlierDeliveries int64 // if the queue counts them, as quorum queues do

	unmarked func() schemas.Event // the event without its replay mark; nil: no mark, or a verified one
}

// replace changes the event of the item and encodes its document again.
func (x *Indexer) replace(it *item, event schemas.Event) {
	it.event, it.document = event, x.cfg.Format.Document(event)
}

// batch is a group of events for one bulk request and one acknowledgement.
type batch struct {
	items             []item
	documents         documentBuffer
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

// add encodes an event.
func (b *batch) add(format schemas.DocumentFormat, d *amqp.Delivery, event *schemas.Event) {
	if d.Redelivered {
		b.redeliveredEvents++
	}
	b.items = append(b.items, item{
		event: *event, redelivered: d.Redelivered, earlierDeliveries: earlierDeliveries(d),
		document: schemas.Document{ID: event.EventID, Stream: event.Action.Stream(), Source: b.documents.append(format, event)},
	})
}

// setUnmarked sets the function that returns the last added event without its replay
// mark, for the case that the mark is forged.
func (b *batch) setUnmarked(unmarked func() schemas.Event) {
	b.items[len(b.items)-1].unmarked = unmarked
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
		sequence = max(sequence, b.items[i].event.Sequence)
	}
	return sequence
}

// lowestSequence returns the lowest sequence that the batch may add to the store.
func (b *batch) lowestSequence() int64 {
	lowest := b.items[0].event.Sequence
	for i := range b.items {
		lowest = min(lowest, b.items[i].event.Sequence)
	}
	return lowest
}

// bytes returns the memory of the bodies and the documents.
func (b *batch) bytes() int { return b.bodyBytes + b.documents.bytes }

// reset empties the batch for the next messages.
func (b *batch) reset() {
	clear(b.items) // frees the messages
	b.documents.reset()
	*b = batch{items: b.items[:0], documents: b.documents, writeResult: b.writeResult}
}
