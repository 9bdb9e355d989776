package overflow

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// Queues are queues of copies whose oldest messages the broker drops when they are full.
type Queues struct {
	Topology   schemas.Topology // of the queues
	Events     string           // exchange of events
	VHost      string
	Connection *rabbit.Connection
	Publisher  *rabbit.Publisher
	Management *rabbit.Management

	// Sign signs the state of an event.
	Sign func(rabbit.Message) rabbit.Message
}

// RecordFull records a gap if the queues are full, while nothing consumes them. Call it before they are
// emptied, which may end and begin again: the gap has one event. It reports whether they are full.
func (q Queues) RecordFull(ctx context.Context) (full bool, err error) {
	late, _, err := q.Connection.CertainQueueState(ctx, q.Topology.IndexLate())
	if err != nil || !q.isFull(late) {
		return false, err
	}
	if recorded, err := q.isRecorded(ctx); err == nil && recorded {
		return true, nil
	}
	now := time.Now()
	g := gap{since: now, until: now, earlier: true, messages: unknown}
	if all, err := q.missing(ctx); err == nil {
		g.messages = all
	}
	if err := q.publish(ctx, g); err != nil {
		return true, err
	}
	return true, q.setRecorded(ctx)
}

// keyRecorded is the key of a binding of the queue of late copies whose gap is recorded. It goes with
// the queue, and no event has this key.
const keyRecorded = "gap.recorded"

func (q Queues) isRecorded(ctx context.Context) (bool, error) {
	bindings, err := q.Management.Bindings(ctx, q.VHost, q.Topology.Events())
	return slices.ContainsFunc(bindings, func(b rabbit.Binding) bool {
		return b.Destination == q.Topology.IndexLate() && b.RoutingKey == keyRecorded
	}), err
}

func (q Queues) setRecorded(ctx context.Context) error {
	err := q.Connection.Do(ctx, func(ch *amqp.Channel) error {
		return ch.QueueBind(q.Topology.IndexLate(), keyRecorded, q.Topology.Events(), false, nil)
	})
	if err != nil {
		return fmt.Errorf("binding queue %s, whose gap is recorded: %w", q.Topology.IndexLate(), err)
	}
	return nil
}

// late asks for the state of the queue of late copies.
func (q Queues) late(ctx context.Context) (rabbit.QueueState, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	late, _, err := q.Connection.QueueState(ctx, q.Topology.IndexLate())
	return late, err
}

// isFull reports whether the oldest copies are dropped: the overflow of the index queue
// is dead-lettered to the queue of late copies, whose overflow is dropped.
func (q Queues) isFull(late rabbit.QueueState) bool {
	return int64(late.Messages) >= q.Topology.IndexLimit
}

// missing counts the copies that were published and neither acknowledged nor are in a
// queue.
func (q Queues) missing(ctx context.Context) (int64, error) {
	var missing int64
	_, queues := q.Topology.Partitions()
	for _, name := range queues {
		index, err := q.Management.Queue(ctx, q.VHost, name)
		if err != nil {
			return 0, err
		}
		missing += index.Stats.Published - index.Stats.Acknowledged - index.Messages
	}
	late, err := q.Management.Queue(ctx, q.VHost, q.Topology.IndexLate())
	if err != nil {
		return 0, err
	}
	return max(0, missing-late.Stats.Acknowledged-late.Messages), nil
}

// unknown is the number of messages in a gap if the management API does not tell.
const unknown = -1

// gap is a time from which copies are missing.
type gap struct {
	since, until time.Time
	earlier      bool // it began before since, while nothing consumed the queues
	messages     int64
}

// publish publishes the `dropped` event of a gap.
func (q Queues) publish(ctx context.Context, g gap) error {
	count := fmt.Sprintf("about %d", g.messages)
	if g.messages == unknown {
		count = "an unknown number of"
	}
	from := fmt.Sprintf("between %s and", g.since.UTC().Format(time.RFC3339))
	if g.earlier {
		from = "while no process recorded them, until"
	}
	none := schemas.Envelope{}
	state := schemas.State{
		Fingerprint: none.Fingerprint(), EventID: "gap:" + rand.Text(), Queue: q.Topology.Index(),
		Time: g.since, Duration: g.until.Sub(g.since),
		Failure: schemas.Failure{Type: "gap", Message: fmt.Sprintf(
			"%s messages that were published %s %s are not recorded: more than tap.limit (%d) waited for the store",
			count, from, g.until.UTC().Format(time.RFC3339), q.Topology.IndexLimit)},
	}
	err := q.Publisher.Publish(ctx, q.Sign(rabbit.Message{
		Exchange: q.Events, RoutingKey: string(schemas.Dropped), Publishing: wire.DefaultFrameMax.Wrap(none, state),
	}))
	if err != nil {
		return fmt.Errorf("publishing the %s event: %w", schemas.Dropped, err)
	}
	return nil
}
