package indexer

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// eventDecoder reads events from deliveries, and numbers them.
type eventDecoder struct {
	cfg        *Config
	sequence   *clock
	mismatches prometheus.Counter

	byPriority       atomic.Bool // RabbitMQ delivers tap copies by priority
	warnedOfPriority atomic.Bool
}

// addFunc adds the events of a delivery to a batch. It never fails: an unreadable
// message becomes a quarantined event.
type addFunc func(*batch, *amqp.Delivery)

func (r *eventDecoder) addTapped(b *batch, d *amqp.Delivery) {
	sequence, now := r.sequence.next()
	byPriority := r.deliveredByPriority(d)
	event := r.cfg.decoder().Tapped(*d, now, sequence)
	event.Ingested, event.ByPriority = now, byPriority
	b.add(r.cfg.Format, d, &event)
	if event.Replay != "" {
		marked := *d // since a closure over d would allocate for every message
		b.setUnmarked(event.Replay, func() schemas.Event {
			unmarked := r.cfg.decoder().TappedUnmarked(marked, now, sequence)
			unmarked.Ingested, unmarked.ByPriority = now, byPriority
			return unmarked
		})
	}
}

func (r *eventDecoder) addLifecycle(b *batch, d *amqp.Delivery) {
	events, bundled := r.cfg.decoder().Unbundle(*d)
	if !bundled {
		r.addLifecycleEvent(b, d, r.decodeLifecycle(*d))
		return
	}
	for _, event := range events {
		event.Sequence, event.Ingested = r.sequence.next()
		r.countMismatch(event)
		r.addLifecycleEvent(b, d, event)
	}
}

// addLifecycleEvent adds an event of the log exchange. A handler's event repeats the
// replay mark of its message, which may be forged.
func (r *eventDecoder) addLifecycleEvent(b *batch, d *amqp.Delivery, event schemas.Event) {
	b.add(r.cfg.Format, d, &event)
	if event.Replay != "" && event.Action != schemas.Replayed {
		unmarked := event
		unmarked.Replay, unmarked.ReplayOf = "", ""
		b.setUnmarked(event.Replay, func() schemas.Event { return unmarked })
	}
}

func (r *eventDecoder) decodeLifecycle(d amqp.Delivery) schemas.Event {
	sequence, now := r.sequence.next()
	event, err := r.cfg.decoder().Lifecycle(d, now, sequence)
	if err != nil {
		r.cfg.Logger.Warn("a message in the log is no event; stored it as quarantined", "routing_key", d.RoutingKey, "error", err)
		event = r.cfg.decoder().Unreadable(d, now, sequence, err)
	} else {
		r.countMismatch(event)
	}
	event.Ingested = now
	return event
}

// countMismatch counts an event whose fingerprint does not match its
// message.
func (r *eventDecoder) countMismatch(e schemas.Event) {
	if e.BodyIn == schemas.BodyHere && !r.cfg.Fingerprints.Matches(e.Envelope, e.Fingerprint) {
		r.mismatches.Inc()
	}
}
