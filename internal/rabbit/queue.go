package rabbit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
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
	case refused && broker.Code == amqp.NotFound:
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

const (
	certainTimeout  = 15 * time.Second       // for an answer of the queue
	certainInterval = 50 * time.Millisecond  // between two questions
	endedTimeout    = 500 * time.Millisecond // for RabbitMQ to count a consumer no more
	leaderTimeout   = 250 * time.Millisecond // after which RabbitMQ answers in place of the leader
)

// ErrSilentQueue means that RabbitMQ did not find out the number of messages in a queue.
var ErrSilentQueue = fmt.Errorf("the queue does not answer within %s: its leader is overloaded or away; try again when it answers", certainTimeout)

// LookingTag begins the tags of the consumers of CertainQueueState.
const LookingTag = "watership-looking-"

// CertainQueueState is QueueState, and never Uncertain. It needs the right to read the queue:
// if the answer is uncertain, it consumes the queue for a moment, on a new connection, since an
// answer that does not count its own consumer is not the queue's. A message that the queue
// delivers before that is requeued. The error is ErrSilentQueue if the queue does not answer.
func (c *Connection) CertainQueueState(ctx context.Context, name string) (state QueueState, found bool, err error) {
	state, found, err = c.QueueState(ctx, name)
	if err != nil || !state.Uncertain {
		return state, found, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, certainTimeout, ErrSilentQueue)
	defer cancel()
	cfg := c.cfg
	cfg.LargeFrames = true
	looking, err := Open(cfg) // RabbitMQ closes the connection of a consumer that a silent queue keeps waiting
	if err != nil {
		return QueueState{}, false, err
	}
	state, err = looking.stateAsConsumer(ctx, name)
	if errors.Is(err, ErrSilentQueue) && looking.Err() == nil {
		err = ErrSilentQueue // wherever the time was up
	}
	if err = errors.Join(err, looking.Close()); err != nil {
		return QueueState{}, false, fmt.Errorf("looking at queue %q: %w", name, err)
	}
	return state, true, nil
}

// stateAsConsumer returns the state of a queue without its own consumer. One consumer may be
// its own, or the active one of another connection, with which its own one waits. So it looks
// whether a consumer is left after its own one, between two answers that are certain.
func (c *Connection) stateAsConsumer(ctx context.Context, name string) (QueueState, error) {
	state, err := c.countAsConsumer(ctx, name)
	if err != nil {
		return QueueState{}, err
	}
	if state.Consumers == 1 {
		left, err := c.hasConsumer(ctx, name)
		if err != nil || left {
			return state, err
		}
		if state, err = c.countAsConsumer(ctx, name); err != nil {
			return QueueState{}, err
		}
	}
	state.Consumers--
	return state, nil
}

// countAsConsumer consumes a queue until it answers, and returns its state with this consumer.
func (c *Connection) countAsConsumer(ctx context.Context, name string) (QueueState, error) {
	s, err := c.newSession(ctx, ConsumeConfig{Queue: name, Prefetch: 1, Tag: LookingTag + rand.Text()})
	if err != nil {
		return QueueState{}, err
	}
	defer s.end()
	state := QueueState{Uncertain: true}
	for state.Consumers == 0 {
		if state, _, err = c.QueueState(ctx, name); err != nil {
			return QueueState{}, err
		}
		if state.Consumers == 0 {
			err = backoff.Sleep(s.ctx, certainInterval)
		}
		if err != nil {
			return QueueState{}, err
		}
	}
	if err := s.Cancel(); err != nil {
		return QueueState{}, err
	}
	for range s.Deliveries { // which were not counted
		state.Messages++
	}
	return state, nil
}

// hasConsumer reports whether a queue still has a consumer some time after another one has
// ended, which RabbitMQ counts for a moment. An answer that took as long as RabbitMQ waits for
// the leader does not count.
func (c *Connection) hasConsumer(ctx context.Context, name string) (bool, error) {
	for end := time.Now().Add(endedTimeout); ; {
		asked := time.Now()
		state, _, err := c.QueueState(ctx, name)
		switch {
		case err != nil:
			return false, err
		case state.Consumers == 0 && time.Since(asked) < leaderTimeout:
			return false, nil
		case state.Consumers > 0 && time.Now().After(end):
			return true, nil
		}
		if err := backoff.Sleep(ctx, certainInterval); err != nil {
			return false, err
		}
	}
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
