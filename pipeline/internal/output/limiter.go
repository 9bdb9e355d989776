package output

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter keeps a queue that does not confirm, such as a quorum queue without a
// majority, from blocking a handler that serves many queues. It bounds the unconfirmed
// messages of each queue, and the wait for a confirm. After a time-out the queue gets
// one message at a time until it confirms again: a message without a confirm may have
// arrived, and arrives twice if it is published again. These messages have their own
// connection, since RabbitMQ blocks a channel that publishes to such a queue, up to
// half a minute for each message, and other messages with it.
type Limiter[P any] struct {
	by                 P                         // publishes messages
	dedicatedPublisher func() (by P, end func()) // on its own connection
	share              int                       // messages of one queue that are unconfirmed at once
	timeout            time.Duration             // for the confirm of a message

	mu  sync.Mutex // guards all
	all map[string]*limit
}

// limit has the unconfirmed messages of one queue.
type limit struct {
	slots   chan struct{} // a token for each message that is unconfirmed
	slow    atomic.Bool   // the latest message had no confirm in time
	probing atomic.Bool   // while it is slow: a message is unconfirmed
}

const (
	maxLimits = 1000 // that are remembered

	// slotTimeout bounds the wait for the confirms of other messages of the queue.
	slotTimeout = 5 * time.Second
)

// ErrNotConfirmed is the error of a message to a queue that does not confirm.
var ErrNotConfirmed = errors.New("confirms nothing")

// NewLimiter returns a Limiter of the messages that by publishes: share messages of one queue may
// be unconfirmed at once, each for timeout. dedicatedPublisher opens a publisher with its
// own connection, and returns the function that closes it.
func NewLimiter[P any](by P, dedicatedPublisher func() (P, func()), timeout time.Duration, share int) *Limiter[P] {
	return &Limiter[P]{by: by, dedicatedPublisher: dedicatedPublisher, share: share, timeout: timeout, all: map[string]*limit{}}
}

// Timeout returns the time limit for the confirm of a message.
func (t *Limiter[P]) Timeout() time.Duration { return t.timeout }

// Publish calls f, which publishes a message to queue, unless too many messages of that
// queue are unconfirmed. The error is ErrNotConfirmed then, and after a time-out of f.
func (t *Limiter[P]) Publish(ctx context.Context, queue string, f func(ctx context.Context, by P) error) error {
	of := t.limitOf(queue)
	by, release, open := t.acquire(ctx, of)
	if !open {
		return fmt.Errorf("queue %q %w", queue, ErrNotConfirmed)
	}
	defer release()
	limited, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	err := f(limited, by)
	late := err != nil && limited.Err() != nil && ctx.Err() == nil
	of.slow.Store(late)
	if late {
		return fmt.Errorf("queue %q %w within %s: %w", queue, ErrNotConfirmed, t.timeout, err)
	}
	return err
}

func (t *Limiter[P]) limitOf(queue string) *limit {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, there := t.all[queue]; there {
		return known
	}
	if len(t.all) >= maxLimits {
		clear(t.all)
	}
	t.all[queue] = &limit{slots: make(chan struct{}, t.share)}
	return t.all[queue]
}

// acquire returns the publisher for a message to a queue; open is false if the queue
// does not confirm.
func (t *Limiter[P]) acquire(ctx context.Context, of *limit) (by P, release func(), open bool) {
	if !of.slow.Load() {
		return t.by, of.release, of.acquire(ctx, min(t.timeout, slotTimeout))
	}
	if !of.probing.CompareAndSwap(false, true) {
		return by, nil, false
	}
	dedicated, end := t.dedicatedPublisher()
	return dedicated, func() {
		end()
		of.probing.Store(false)
	}, true
}

// acquire takes a slot; it returns false if none becomes free within timeout.
func (l *limit) acquire(ctx context.Context, timeout time.Duration) bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
		return true
	case <-timer.C:
		l.slow.Store(true)
	case <-ctx.Done():
	}
	return false
}

func (l *limit) release() { <-l.slots }
