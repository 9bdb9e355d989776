package rabbit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// QueueState is the result of a passive queue declaration.
type QueueState struct {
	Messages  int  // ready to be delivered
	Consumers int  // of a quorum queue with a single active consumer only the active one
	Locked    bool // exclusive to another connection; the counts are unknown

	// Uncertain: RabbitMQ named no message and no consumer, which is also its answer for a
	// quorum queue whose leader is silent for 250 ms, whatever is in the queue. Do not delete,
	// release or skip anything because of such an answer; CertainQueueState waits for another.
	Uncertain bool
}

// QueueState declares a queue passively; found reports whether it exists.
func (c *Connection) QueueState(ctx context.Context, name string) (state QueueState, found bool, err error) {
	if CheckName(name) != nil {
		return QueueState{}, false, nil
	}
	declared := make(chan amqp.Queue, 1) // not a variable: a declaration may outlive ctx
	err = c.Do(ctx, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err == nil {
			select {
			case declared <- q:
			default:
			}
		}
		return err
	})
	broker, refused := reply(err)
	switch {
	case IsMissing(err):
		return QueueState{}, false, nil
	case refused && broker.Code == amqp.ResourceLocked:
		return QueueState{Locked: true}, true, nil
	case err != nil:
		return QueueState{}, false, fmt.Errorf("looking at queue %q: %w", name, err)
	}
	return newQueueState(<-declared), true, nil
}

func newQueueState(q amqp.Queue) QueueState {
	return QueueState{Messages: q.Messages, Consumers: q.Consumers, Uncertain: q.Messages == 0 && q.Consumers == 0}
}

// ErrStream means that a queue is a stream. Its consumer begins with the next message, so it
// skips those that are published while it does not run.
var ErrStream = errors.New("the queue is a stream")

// IsStream reports whether a queue exists and is a stream. AMQP does not say it; but every
// queue of RabbitMQ refuses a consumer whose x-priority is no number, and a stream refuses
// any x-priority, in other words.
func (c *Connection) IsStream(ctx context.Context, name string) (bool, error) {
	if CheckName(name) != nil {
		return false, nil
	}
	err := c.Do(ctx, func(ch *amqp.Channel) error {
		if err := ch.Qos(1, 0, false); err != nil { // for a broker that accepts the consumer
			return err
		}
		_, err := ch.Consume(name, "", false, false, false, false, amqp.Table{"x-priority": "none"})
		return err
	})
	if _, refused := reply(err); err == nil || refused {
		return refusesPriority(err), nil
	}
	return false, fmt.Errorf("looking at queue %q: %w", name, err)
}

// refusesPriority reports whether the broker refused a consumer because its queue is a stream,
// which has no priorities of consumers.
func refusesPriority(err error) bool {
	broker, refused := reply(err)
	return refused && broker.Code == amqp.PreconditionFailed &&
		strings.Contains(broker.Reason, "'x-priority'") && strings.Contains(broker.Reason, "rabbit_stream_queue")
}
