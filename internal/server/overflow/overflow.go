// Package overflow records the times at which RabbitMQ drops copies of messages, since their
// queues are full.
package overflow

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/watershipmq/watership/internal/backoff"
)

const (
	overflowInterval = time.Second
	requestTimeout   = 3 * time.Second
	firstLooks       = 3 // since the queues are not consumed until then

	// counterDelay is how long the management API may take to count past messages:
	// it does so every five seconds (https://www.rabbitmq.com/docs/management#statistics-interval).
	counterDelay = 6 * time.Second
)

// Watcher watches for times at which the broker drops the oldest tap copies, since the
// store takes fewer than are published and tap.when_full is drop_oldest. Each becomes a
// `dropped` event, with its period and an estimate of how many messages are missing.
type Watcher struct {
	Queues
	Logger *slog.Logger

	// Lag returns the age of the newest stored event of a queue.
	Lag func(queue string, waiting int) time.Duration

	Registerer prometheus.Registerer

	dropping prometheus.Gauge
	dropped  prometheus.Counter

	counted      int64     // dropped messages that an earlier event has counted
	since        time.Time // messages published earlier are in the store; zero: nothing is dropped
	earlier      bool      // the overflow began before Run, while nothing consumed the queues
	notFullSince time.Time // when the queue was no longer full
}

// Run runs until ctx ends. It calls looked when it knows whether the queues are full, before which
// this process may not consume them, and goes on when declared is closed.
func (o *Watcher) Run(ctx context.Context, declared <-chan struct{}, looked func()) error {
	factory := promauto.With(o.Registerer)
	o.dropping = factory.NewGauge(prometheus.GaugeOpts{
		Namespace: "watership", Subsystem: "index", Name: "dropping",
		Help: "1 while the index queues are full, so that RabbitMQ drops their oldest messages.",
	})
	o.dropped = factory.NewCounter(prometheus.CounterOpts{
		Namespace: "watership", Subsystem: "index", Name: "dropped_messages_total",
		Help: "Copies that RabbitMQ dropped from the index queues, counted with the management API.",
	})
	select {
	case <-declared:
	case <-ctx.Done():
		return nil
	}
	o.look(ctx)
	looked()
	ticker := time.NewTicker(overflowInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			o.poll(ctx)
		case <-ctx.Done():
			return o.recordUnfinished(ctx)
		}
	}
}

// look finds an overflow that began before Run: once this process consumes the queues they may be no
// longer full.
func (o *Watcher) look(ctx context.Context) {
	late, err := o.late(ctx)
	for range firstLooks - 1 {
		if err == nil || backoff.Sleep(ctx, overflowInterval) != nil {
			break
		}
		late, err = o.late(ctx)
	}
	if err == nil && late.Uncertain { // as an empty queue is, and one whose leader is silent
		late, _, err = o.Connection.CertainQueueState(ctx, o.Topology.IndexLate())
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		o.Logger.Warn("it is not known whether copies of messages were dropped before this process started", "queue", o.Topology.IndexLate(), "error", err)
	case o.isFull(late):
		o.earlier = late.Consumers == 0
		o.begin()
	default:
		o.counted, _ = o.missing(ctx)
	}
}

// begin notes that the oldest copies are dropped.
func (o *Watcher) begin() {
	var lag time.Duration
	_, queues := o.Topology.Partitions()
	for _, queue := range queues {
		lag = max(lag, o.Lag(queue, 1))
	}
	o.since = time.Now().Add(-lag)
	o.dropping.Set(1)
	o.Logger.Error("the queues of copies are full: the oldest copies of messages are dropped until the store takes more",
		"queue", o.Topology.Index(), "limit", o.Topology.IndexLimit, "since", o.since)
}

// poll notes when the queue becomes full, and records the overflow once it is over.
func (o *Watcher) poll(ctx context.Context) {
	late, err := o.late(ctx)
	full := o.isFull(late)
	switch {
	case err != nil || late.Uncertain: // the broker or the queue is unavailable, and the overflow lasts
	case full && o.since.IsZero():
		o.begin()
	case full:
		o.notFullSince = time.Time{}
	case !o.since.IsZero() && o.notFullSince.IsZero():
		o.notFullSince = time.Now()
	case !o.since.IsZero() && time.Since(o.notFullSince) > counterDelay:
		if err := o.record(ctx, o.notFullSince); err != nil {
			o.Logger.Error("recording a gap failed; trying again", "error", err)
		}
	}
}

// record publishes the `dropped` event, and starts again.
func (o *Watcher) record(ctx context.Context, until time.Time) error {
	g := gap{since: o.since, until: until, earlier: o.earlier, messages: unknown}
	if all, err := o.missing(ctx); err == nil {
		g.messages = max(0, all-o.counted)
		o.dropped.Add(float64(g.messages))
		o.counted = all
	}
	if err := o.publish(ctx, g); err != nil {
		return err
	}
	o.dropping.Set(0)
	o.since, o.notFullSince, o.earlier = time.Time{}, time.Time{}, false
	return nil
}

// recordUnfinished records the overflow so far; the next server records the rest.
func (o *Watcher) recordUnfinished(ctx context.Context) error {
	if o.since.IsZero() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	return o.record(ctx, time.Now())
}
