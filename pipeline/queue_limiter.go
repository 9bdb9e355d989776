package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// queueLimiter bounds how much of a handler that serves many queues one of them takes that
// does not confirm, such as a quorum queue without a majority. Of each queue only so
// many messages are unconfirmed at once, for so long. After that the queue gets one
// message at a time until it confirms again: a message that is given up unconfirmed
// may have arrived, and arrives twice where it is sent again. It gets that on a
// connection of its own, since RabbitMQ lets a channel wait that publishes to such a
// queue, up to half a minute for each message, and others with it.
type queueLimiter struct {
	by        publisher
	dedicated func() (by publisher, end func()) // on a connection of its own
	share     int                               // messages of one queue that are unconfirmed at once
	timeout   time.Duration                     // for the confirm of a message

	mu  sync.Mutex // guards all
	all map[string]*queueLimit
}

// queueLimit is a queue to which messages go.
type queueLimit struct {
	slots   chan struct{} // a token for each message that is unconfirmed
	slow    atomic.Bool   // the latest message was not confirmed in time
	probing atomic.Bool   // while it is slow: a message is unconfirmed
}

const (
	queueShare     = 16   // messages
	delayShare     = 4096 // messages, of all routes
	maxQueueLimits = 1000 // that are remembered

	// slotTimeout is how long a message waits for others of its queue.
	slotTimeout = 5 * time.Second
)

// errNotConfirmed is the error of a message that its queue does not take now.
var errNotConfirmed = errors.New("confirms nothing")

func newQueueLimiter(by publisher, dedicated func() (publisher, func()), timeout time.Duration, share int) *queueLimiter {
	return &queueLimiter{by: by, dedicated: dedicated, share: share, timeout: timeout, all: map[string]*queueLimit{}}
}

// publish calls f, which publishes a message that goes to queue, unless too many of
// that queue are unconfirmed. The error is errNotConfirmed then, as where f takes too long.
func (t *queueLimiter) publish(ctx context.Context, queue string, f func(ctx context.Context, by publisher) error) error {
	limit := t.of(queue)
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

func (t *queueLimiter) of(queue string) *queueLimit {
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

// acquire says what publishes a message to a queue; open is false where that stands still.
func (t *queueLimiter) acquire(ctx context.Context, limit *queueLimit) (by publisher, release func(), open bool) {
	if !limit.slow.Load() {
		return t.by, limit.release, limit.acquire(ctx, min(t.timeout, slotTimeout))
	}
	if !limit.probing.CompareAndSwap(false, true) {
		return nil, nil, false
	}
	by, end := t.dedicated()
	return by, func() {
		end()
		limit.probing.Store(false)
	}, true
}

// acquire takes a place; false where the queue stands still. A queue that frees no place
// for so long does.
func (t *queueLimit) acquire(ctx context.Context, patience time.Duration) bool {
	select {
	case t.slots <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(patience)
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
