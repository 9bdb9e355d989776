package indexer

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// take adds the events of a delivery to a batch. It never fails: what cannot be
// read is quarantined.
type addFunc func(*batch, amqp.Delivery)

func (x *Indexer) addTapped(b *batch, d amqp.Delivery) {
	sequence, now := x.sequence.next()
	event := x.cfg.Decoder.Tapped(d, now, sequence)
	event.Ingested = now
	b.add(x.cfg.Format, d, event)
	if event.Replay != "" {
		b.setUnmarked(func() schemas.Event {
			unmarked := x.cfg.Decoder.TappedUnmarked(d, now, sequence)
			unmarked.Ingested = now
			return unmarked
		})
	}
}

func (x *Indexer) addLifecycle(b *batch, d amqp.Delivery) {
	events, bundled := x.cfg.Decoder.Unbundle(d)
	if !bundled {
		x.addLifecycleEvent(b, d, x.decodeLifecycle(d))
		return
	}
	for _, event := range events {
		event.Sequence, event.Ingested = x.sequence.next()
		x.countMismatch(event)
		x.addLifecycleEvent(b, d, event)
	}
}

// addLifecycle adds an event of the log. What a handler reports of a message repeats
// the message's mark.
func (x *Indexer) addLifecycleEvent(b *batch, d amqp.Delivery, event schemas.Event) {
	b.add(x.cfg.Format, d, event)
	if event.Replay != "" && event.Action != schemas.Replayed {
		b.setUnmarked(func() schemas.Event {
			event.Replay, event.ReplayOf = "", ""
			return event
		})
	}
}

func (x *Indexer) decodeLifecycle(d amqp.Delivery) schemas.Event {
	sequence, now := x.sequence.next()
	event, err := x.cfg.Decoder.Lifecycle(d, now, sequence)
	if err != nil {
		x.cfg.Logger.Warn("a message in the log is no event; kept it as it is", "routing_key", d.RoutingKey, "error", err)
		event = x.cfg.Decoder.Unreadable(d, now, sequence, err)
	} else {
		x.countMismatch(event)
	}
	event.Ingested = now
	return event
}

// count counts an event whose fingerprint is not its message's.
func (x *Indexer) countMismatch(e schemas.Event) {
	if e.BodyIn == schemas.BodyHere && e.Fingerprint != e.Envelope.Fingerprint() {
		x.metrics.mismatches.Inc()
	}
}

// item is one event on its way to the store.
type item struct {
	event       schemas.Event
	document    schemas.Document
	redelivered bool
	deliveries  int64 // so far, where a quorum queue counts them

	unmarked func() schemas.Event // without the mark of a replay; nil: it has none to be checked
}

// replace gives the item another event, with the document that goes with it.
func (x *Indexer) replace(it *item, event schemas.Event) {
	it.event, it.document = event, x.cfg.Format.Document(event)
}

// batch is written by one request and acknowledged by one frame.
type batch struct {
	items             []item
	sources           []byte // the documents, one behind the other
	messages          int
	redeliveredEvents int    // events
	bodies            int    // bytes of the messages' bodies
	last              uint64 // delivery tag of its newest message
	started           time.Time
	startsRedelivered bool             // it begins with a message that comes again, see order.go
	stored            map[string]int64 // sequences of those that are in the store, by id
	written           chan error
}

// add encodes an event. The documents before stay valid where sources moves.
func (b *batch) add(format schemas.DocumentFormat, d amqp.Delivery, event schemas.Event) {
	begin := len(b.sources)
	b.sources = format.Append(b.sources, event)
	if d.Redelivered {
		b.redeliveredEvents++
	}
	b.items = append(b.items, item{
		event: event, redelivered: d.Redelivered, deliveries: deliveries(d),
		document: schemas.Document{
			ID: event.EventID, Stream: event.Action.Stream(),
			Source: b.sources[begin:len(b.sources):len(b.sources)],
		},
	})
}

// mark notes that the event which was added last says of itself that a replay led to
// it, and the event without that.
func (b *batch) setUnmarked(unmarked func() schemas.Event) {
	b.items[len(b.items)-1].unmarked = unmarked
}

// deliveries is how often a message was delivered before
// (https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling).
func deliveries(d amqp.Delivery) int64 {
	if !d.Redelivered {
		return 0
	}
	count, _ := d.Headers["x-delivery-count"].(int64)
	return count
}

// took notes the message whose events were added.
func (b *batch) countMessage(d amqp.Delivery) {
	b.messages++
	b.bodies += len(d.Body)
	b.last = d.DeliveryTag
}

// allAgain says that every message comes again: more may wait that do.
func (b *batch) allRedelivered() bool {
	return b.startsRedelivered && b.items[len(b.items)-1].redelivered
}

// highest is the highest sequence of its events.
func (b *batch) highestSequence() (sequence int64) {
	for i := range b.items {
		sequence = max(sequence, b.items[i].event.Sequence)
	}
	return sequence
}

// grow makes room in an empty batch.
func (b *batch) grow(items, bytes int) {
	if cap(b.items) < items {
		b.items = make([]item, 0, items)
	}
	if cap(b.sources) < bytes {
		b.sources = make([]byte, 0, bytes)
	}
}

// largestKept is how large a batch's buffer may be to be used again.
const largestKept = 16 << 20 // bytes

// reset makes the batch empty, for the next messages.
func (b *batch) reset() {
	clear(b.items) // lets go of the messages
	b.items, b.messages, b.redeliveredEvents, b.bodies, b.startsRedelivered, b.stored = b.items[:0], 0, 0, 0, false, nil
	if b.sources = b.sources[:0]; cap(b.sources) > largestKept {
		b.sources = nil
	}
}
