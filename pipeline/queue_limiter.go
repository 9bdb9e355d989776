package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// queueLimiter keeps a queue that does not confirm, such as a quorum queue without a
// majority, from blocking a handler that serves many queues. It bounds the unconfirmed
// messages of each queue, and the wait for a confirm. After a time-out the queue gets
// one message at a time until it confirms again: a message without a confirm may have
// arrived, and arrives twice if it is published again. These messages have a connection
// of their own, since RabbitMQ blocks a channel that publishes to such a queue, up to
// half a minute for each message, and other messages with it.
type queueLimiter struct {
	by                 publisher
	dedicatedPublisher func() (by publisher, end func()) // on a connection of its own
	share              int                               // messages of one queue that are unconfirmed at once
	timeout            time.Duration                     // for the confirm of a message

	mu  sync.Mutex // guards all
	all map[string]*queueLimit
}

// queueLimit has the unconfirmed messages of one queue.
type queueLimit struct {
	slots   chan struct{} // a token for each message that is unconfirmed
	slow    atomic.Bool   // the latest message had no confirm in time
	probing atomic.Bool   // while it is slow: a message is unconfirmed
}

const (
	queueShare     = 16   // messages
	delayShare     = 4096 // messages, of all routes
	maxQueueLimits = 1000 // that are remembered

	// slotTimeout bounds the wait for the confirms of other messages of the queue.
	slotTimeout = 5 * time.Second
)

// errNotConfirmed is the error of a message to a queue that does not confirm.
var errNotConfirmed = errors.New("confirms nothing")

func newQueueLimiter(by publisher, dedicatedPublisher func() (publisher, func()), timeout time.Duration, share int) *queueLimiter {
	return &queueLimiter{by: by, dedicatedPublisher: dedicatedPublisher, share: share, timeout: timeout, all: map[string]*queueLimit{}}
}

// publish calls f, which publishes a message to queue, unless too many messages of that
// queue are unconfirmed. The error is errNotConfirmed then, and after a time-out of f.
func (t *queueLimiter) publish(ctx context.Context, queue string, f func(ctx context.Context, by publisher) error) error {
	limit := t.limitOf(queue)
	by, release, open := t.acquire(ctx, limit)
	if !open {
		return fmt.Errorf("queue %q %w", queue, errNotConfirmed)
	}
	defer release()
	limited, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	err := f(limited, by)
	late := err != nil && limited.Err() != nil && ctx.Err() == nil
	limit.slow.Store(late)
	if late {
		return fmt.Errorf("queue %q %w within %s: %w", queue, errNotConfirmed, t.timeout, err)
	}
	return err
}

func (t *queueLimiter) limitOf(queue string) *queueLimit {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, there := t.all[queue]; there {
		return known
	}
	if len(t.all) >= maxQueueLimits {
		clear(t.all)
	}
	t.all[queue] = &queueLimit{slots: make(chan struct{}, t.share)}
	return t.all[queue]
}

// acquire returns the publisher for a message to a queue; open is false if the queue
// does not confirm.
func (t *queueLimiter) acquire(ctx context.Context, limit *queueLimit) (by publisher, release func(), open bool) {
	if !limit.slow.Load() {
		return t.by, limit.release, limit.acquire(ctx, min(t.timeout, slotTimeout))
	}
	if !limit.probing.CompareAndSwap(false, true) {
		return nil, nil, false
	}
	by, end := t.dedicatedPublisher()
	return by, func() {
		end()
		limit.probing.Store(false)
	}, true
}

// acquire takes a slot; it returns false if none becomes free within timeout.
func (t *queueLimit) acquire(ctx context.Context, timeout time.Duration) bool {
	select {
	case t.slots <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case t.slots <- struct{}{}:
		return true
	case <-timer.C:
		t.slow.Store(true)
	case <-ctx.Done():
	}
	return false
}

func (t *queueLimit) release() { <-t.slots }
