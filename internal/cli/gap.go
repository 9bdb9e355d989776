package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

const (
	gapPoll = time.Second

	// gapSettled is when the management API has counted what happened before:
	// it does so every five seconds (https://www.rabbitmq.com/docs/management#statistics-interval).
	gapSettled = 6 * time.Second
)

// gaps looks for times at which the broker dropped copies of what was published,
// since the store took less and tap.when_full is drop_oldest. Each becomes an
// event, with its span and an estimate of how many messages are missing.
type gaps struct {
	*vitals
	conn       *rabbit.Connection
	publisher  *rabbit.Publisher
	management *rabbit.Management

	dropping prometheus.Gauge
	dropped  prometheus.Counter

	counted int64     // messages that an earlier gap accounts for
	since   time.Time // what was published before is in the store; zero: no gap
	over    time.Time // when the queue was found not to be full any more
}

// watchGaps runs until ctx ends, where copies may be dropped at all.
func (v *vitals) watchGaps(ctx context.Context) (err error) {
	if v.topology.IndexLimit == 0 {
		return nil
	}
	conn, err := v.connect("recording gaps", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(err, publisher.Close()) }()
	management, err := v.managementAPI()
	if err != nil {
		return err
	}
	factory := promauto.With(v.registry)
	g := &gaps{
		vitals: v, conn: conn, publisher: publisher, management: management,
		dropping: factory.NewGauge(prometheus.GaugeOpts{
			Namespace: "watership", Subsystem: "index", Name: "dropping",
			Help: "1 while the queues of copies are full, so that the oldest copies are dropped.",
		}),
		dropped: factory.NewCounter(prometheus.CounterOpts{
			Namespace: "watership", Subsystem: "index", Name: "dropped_messages_total",
			Help: "Copies that were dropped, as far as the management API allows to count them.",
		}),
	}
	return g.run(ctx)
}

func (g *gaps) run(ctx context.Context) error {
	select {
	case <-g.handlers.Running():
	case <-ctx.Done():
		return nil
	}
	if full, err := g.full(ctx); err == nil && !full {
		g.counted, _ = g.missing(ctx)
	}
	ticker := time.NewTicker(gapPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			g.turn(ctx)
		case <-ctx.Done():
			return g.atTheEnd(ctx)
		}
	}
}

// turn opens a gap where the queue is full, and records it once it is over.
func (g *gaps) turn(ctx context.Context) {
	full, err := g.full(ctx)
	switch {
	case err != nil: // the broker is away; a gap lasts as long
	case full && g.since.IsZero():
		g.since = time.Now().Add(-g.behind(g.topology.Index(), 1))
		g.dropping.Set(1)
		g.logger.Error("the queues of copies are full: the oldest copies of messages are dropped until the store takes more",
			"queue", g.topology.Index(), "limit", g.topology.IndexLimit, "since", g.since)
	case full:
		g.over = time.Time{}
	case !g.since.IsZero() && g.over.IsZero():
		g.over = time.Now()
	case !g.since.IsZero() && time.Since(g.over) > gapSettled:
		if err := g.record(ctx, g.over); err != nil {
			g.logger.Error("recording a gap failed; trying again", "error", err)
		}
	}
}

// full says whether the oldest are dropped: what overflows from the queue of
// copies goes to that of late ones, and from there to nowhere.
func (g *gaps) full(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, vitalsTimeout)
	defer cancel()
	late, err := look(ctx, g.conn, g.topology.IndexLate())
	return int64(late.Messages) >= g.topology.IndexLimit, err
}

// missing counts the copies that came in, and neither were acknowledged nor wait.
func (g *gaps) missing(ctx context.Context) (int64, error) {
	index, err := g.management.Queue(ctx, g.vhost, g.topology.Index())
	if err != nil {
		return 0, err
	}
	late, err := g.management.Queue(ctx, g.vhost, g.topology.IndexLate())
	if err != nil {
		return 0, err
	}
	return max(0, index.Stats.Published-index.Stats.Acknowledged-late.Stats.Acknowledged-index.Messages-late.Messages), nil
}

// record publishes the event of a gap, and forgets the gap.
func (g *gaps) record(ctx context.Context, until time.Time) error {
	many := "an unknown number of"
	if all, err := g.missing(ctx); err == nil {
		many = fmt.Sprintf("about %d", max(0, all-g.counted))
		g.dropped.Add(float64(max(0, all-g.counted)))
		g.counted = all
	}
	none := schemas.Envelope{}
	state := schemas.State{
		Fingerprint: none.Fingerprint(), EventID: "gap:" + rand.Text(), Queue: g.topology.Index(),
		Time: g.since, Duration: until.Sub(g.since),
		Failure: schemas.Failure{Type: "gap", Message: fmt.Sprintf(
			"%s messages that were published between %s and %s are not recorded: more than tap.limit (%d) waited for the store",
			many, g.since.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339), g.topology.IndexLimit)},
	}
	err := g.publisher.Publish(ctx, g.signed(rabbit.Message{
		Exchange: g.topology.Events(), RoutingKey: string(schemas.Dropped), Publishing: schemas.DefaultFrameMax.Wrap(none, state),
	}))
	if err != nil {
		return fmt.Errorf("publishing the %s event: %w", schemas.Dropped, err)
	}
	g.dropping.Set(0)
	g.since, g.over = time.Time{}, time.Time{}
	return nil
}

// atTheEnd records the gap so far; the next serve finds the rest of it.
func (g *gaps) atTheEnd(ctx context.Context) error {
	if g.since.IsZero() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), vitalsTimeout)
	defer cancel()
	return g.record(ctx, time.Now())
}
