package rabbit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

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
	state, err = consumingLook{looking, name}.state(ctx)
	if errors.Is(err, ErrSilentQueue) && looking.Err() == nil {
		err = ErrSilentQueue // wherever the time was up
	}
	if err = errors.Join(err, looking.Close()); err != nil {
		return QueueState{}, false, fmt.Errorf("looking at queue %q: %w", name, err)
	}
	return state, true, nil
}

// consumingLook looks at a queue by consuming it.
type consumingLook struct {
	conn  *Connection
	queue string
}

// state returns the state of a queue without its own consumer. One consumer may be
// its own, or the active one of another connection, with which its own one waits. So it looks
// whether a consumer is left after its own one, between two answers that are certain.
func (l consumingLook) state(ctx context.Context) (QueueState, error) {
	state, err := l.count(ctx)
	if err != nil {
		return QueueState{}, err
	}
	if state.Consumers == 1 {
		left, err := l.hasConsumer(ctx)
		if err != nil || left {
			return state, err
		}
		if state, err = l.count(ctx); err != nil {
			return QueueState{}, err
		}
	}
	state.Consumers--
	return state, nil
}

// count consumes a queue until it answers, and returns its state with this consumer.
func (l consumingLook) count(ctx context.Context) (QueueState, error) {
	s, err := l.conn.newSession(ctx, ConsumeConfig{Queue: l.queue, Prefetch: 1, Tag: LookingTag + rand.Text()})
	if err != nil {
		return QueueState{}, err
	}
	defer s.end()
	state := QueueState{Uncertain: true}
	for state.Consumers == 0 {
		if state, _, err = l.conn.QueueState(ctx, l.queue); err != nil {
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
func (l consumingLook) hasConsumer(ctx context.Context) (bool, error) {
	for end := time.Now().Add(endedTimeout); ; {
		asked := time.Now()
		state, _, err := l.conn.QueueState(ctx, l.queue)
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
