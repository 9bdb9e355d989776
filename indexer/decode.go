package indexer

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// addFunc adds the events of a delivery to a batch. It never fails: an unreadable
// message becomes a quarantined event.
type addFunc func(*batch, *amqp.Delivery)

func (x *Indexer) addTapped(b *batch, d *amqp.Delivery) {
	sequence, now := x.sequence.next()
	byPriority := x.deliveredByPriority(d)
	event := x.cfg.Decoder.Tapped(*d, now, sequence)
	event.Ingested, event.ByPriority = now, byPriority
	b.add(x.cfg.Format, d, &event)
	if event.Replay != "" {
		marked := *d // since a closure over d would allocate for every message
		b.setUnmarked(event.Replay, func() schemas.Event {
			unmarked := x.cfg.Decoder.TappedUnmarked(marked, now, sequence)
			unmarked.Ingested, unmarked.ByPriority = now, byPriority
			return unmarked
		})
	}
}

func (x *Indexer) addLifecycle(b *batch, d *amqp.Delivery) {
	events, bundled := x.cfg.Decoder.Unbundle(*d)
	if !bundled {
		x.addLifecycleEvent(b, d, x.decodeLifecycle(*d))
		return
	}
	for _, event := range events {
		event.Sequence, event.Ingested = x.sequence.next()
		x.countMismatch(event)
		x.addLifecycleEvent(b, d, event)
	}
}

// addLifecycleEvent adds an event of the log exchange. A handler's event repeats the
// replay mark of its message, which may be forged.
func (x *Indexer) addLifecycleEvent(b *batch, d *amqp.Delivery, event schemas.Event) {
	b.add(x.cfg.Format, d, &event)
	if event.Replay != "" && event.Action != schemas.Replayed {
		unmarked := event
		unmarked.Replay, unmarked.ReplayOf = "", ""
		b.setUnmarked(event.Replay, func() schemas.Event { return unmarked })
	}
}

func (x *Indexer) decodeLifecycle(d amqp.Delivery) schemas.Event {
	sequence, now := x.sequence.next()
	event, err := x.cfg.Decoder.Lifecycle(d, now, sequence)
	if err != nil {
		x.cfg.Logger.Warn("a message in the log is no event; stored it as quarantined", "routing_key", d.RoutingKey, "error", err)
		event = x.cfg.Decoder.Unreadable(d, now, sequence, err)
	} else {
		x.countMismatch(event)
	}
	event.Ingested = now
	return event
}

// countMismatch counts an event whose fingerprint does not match its
// message.
func (x *Indexer) countMismatch(e schemas.Event) {
	if e.BodyIn == schemas.BodyHere && !x.cfg.Decoder.Fingerprints.Matches(e.Envelope, e.Fingerprint) {
		x.metrics.mismatches.Inc()
	}
}
