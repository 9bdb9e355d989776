package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// targets bounds how much of a handler that serves many queues one of them takes that
// does not confirm, such as a quorum queue without a majority. Of each queue only so
// many messages are unconfirmed at once, for so long. After that the queue gets one
// message at a time until it confirms again: a message that is given up unconfirmed
// may have arrived, and arrives twice where it is sent again. It gets that on a
// connection of its own, since RabbitMQ lets a channel wait that publishes to such a
// queue, up to half a minute for each message, and others with it.
type targets struct {
	by      publisher
	alone   func() (by publisher, end func()) // on a connection of its own
	share   int                               // messages of one queue that are unconfirmed at once
	timeout time.Duration                     // for the confirm of a message

	mu  sync.Mutex // guards all
	all map[string]*target
}

// target is a queue to which messages go.
type target struct {
	places  chan struct{} // a token for each message that is unconfirmed
	slow    atomic.Bool   // the latest message was not confirmed in time
	probing atomic.Bool   // while it is slow: a message is unconfirmed
}

const (
	targetShare = 16   // messages
	delayShare  = 4096 // messages, of all routes
	maxTargets  = 1000 // that are remembered

	// targetPatience is how long a message waits for others of its queue.
	targetPatience = 5 * time.Second
)

// errSilent is the error of a message that its queue does not take now.
var errSilent = errors.New("confirms nothing")

func newTargets(by publisher, alone func() (publisher, func()), timeout time.Duration, share int) *targets {
	return &targets{by: by, alone: alone, share: share, timeout: timeout, all: map[string]*target{}}
}

// publish calls f, which publishes a message that goes to queue, unless too many of
// that queue are unconfirmed. The error is errSilent then, as where f takes too long.
func (t *targets) publish(ctx context.Context, queue string, f func(ctx context.Context, by publisher) error) error {
	target := t.of(queue)
	by, leave, open := t.enter(ctx, target)
	if !open {
		return fmt.Errorf("queue %q %w", queue, errSilent)
	}
	defer leave()
	limited, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	err := f(limited, by)
	late := err != nil && limited.Err() != nil && ctx.Err() == nil
	target.slow.Store(late)
	if late {
		return fmt.Errorf("queue %q %w within %s: %w", queue, errSilent, t.timeout, err)
	}
	return err
}

func (t *targets) of(queue string) *target {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, there := t.all[queue]; there {
		return known
	}
	if len(t.all) >= maxTargets {
		clear(t.all)
	}
	t.all[queue] = &target{places: make(chan struct{}, t.share)}
	return t.all[queue]
}

// enter says what publishes a message to a queue; open is false where that stands still.
func (t *targets) enter(ctx context.Context, target *target) (by publisher, leave func(), open bool) {
	if !target.slow.Load() {
		return t.by, target.leave, target.enter(ctx, min(t.timeout, targetPatience))
	}
	if !target.probing.CompareAndSwap(false, true) {
		return nil, nil, false
	}
	by, end := t.alone()
	return by, func() {
		end()
		target.probing.Store(false)
	}, true
}

// enter takes a place; false where the queue stands still. A queue that frees no place
// for so long does.
func (t *target) enter(ctx context.Context, patience time.Duration) bool {
	select {
	case t.places <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case t.places <- struct{}{}:
		return true
	case <-timer.C:
		t.slow.Store(true)
	case <-ctx.Done():
	}
	return false
}

func (t *target) leave() { <-t.places }
