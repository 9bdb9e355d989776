// Package crashloop finds the message whose handler ends the process, among the messages
// that were in flight with it.
package crashloop

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// suspectsPause is the time for the other suspects to be delivered.
	suspectsPause = 500 * time.Millisecond

	// settleTime is the time for the first suspects of a process to be known. RabbitMQ
	// delivers them first, and their goroutines may start later than those of others.
	settleTime = 50 * time.Millisecond

	// aloneTimeout bounds the wait of a suspect for the other handlers.
	aloneTimeout = 10 * time.Second

	allHandlers  = 1 << 30
	maxSurvivors = 10_000 // that are remembered, and as many requeued messages
)

// Guard keeps messages whose handler ends the process from doing so forever. The
// messages that were in flight with such a message have as many deliveries. So suspects
// are handled alone, in the order of their deliveries, from their last one on: if the
// process ends, the first of them in its next life was the cause, since RabbitMQ requeues
// messages in their order. That one becomes poison, and the others are handled.
type Guard struct {
	Limit    int // deliveries without an outcome; negative: none
	handlers *semaphore.Weighted

	mu        sync.Mutex      // guards the fields below
	poisoned  bool            // a suspect has become poison
	survivors map[string]bool // fingerprints of messages that had no outcome, though the process did not end
	requeued  int             // messages that no handler had when they were requeued
	suspects  []uint64        // delivery tags, sorted
	began     time.Time       // the first call of Begin
	changed   chan struct{}   // closed when a suspect has ended
}

// New returns a Guard for the messages of one route.
func New(limit int) *Guard {
	return &Guard{Limit: limit, handlers: semaphore.NewWeighted(allHandlers), survivors: map[string]bool{}, changed: make(chan struct{})}
}

// Survived is called for a message without an outcome.
func (g *Guard) Survived(fingerprint string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.survivors) >= maxSurvivors {
		clear(g.survivors)
	}
	g.survivors[fingerprint] = true
}

// Requeued is called with a number of messages that this process requeued and no handler
// had, or fewer of them.
func (g *Guard) Requeued(messages int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requeued = min(g.requeued+messages, maxSurvivors)
}

// Counts reports whether the earlier deliveries of a redelivered message count. They do not
// if this process has survived the message or no handler of the process had it. If too
// many are taken for such messages, the next process counts them: this one would have
// to end first.
func (g *Guard) Counts(fingerprint string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.Limit <= 0 || g.survivors[fingerprint] {
		return false
	}
	if g.requeued > 0 {
		g.requeued--
		return false
	}
	return true
}

// Condemns reports whether a suspect with so many deliveries becomes poison.
func (g *Guard) Condemns(deliveries int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if deliveries < g.Limit || g.poisoned {
		return false
	}
	g.poisoned = true
	return true
}

// Begin waits until the handler may be called with a message that is no suspect. It waits
// for all suspects: a message that ends the process while they wait would be charged to the
// first of them.
func (g *Guard) Begin(ctx context.Context) (end func(), err error) {
	err = g.awaitNoSuspects(ctx)
	if err == nil {
		err = g.handlers.Acquire(ctx, 1)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for a handler that is to be alone: %w", err)
	}
	return func() { g.handlers.Release(1) }, nil
}

func (g *Guard) awaitNoSuspects(ctx context.Context) error {
	g.mu.Lock()
	if g.began.IsZero() {
		g.began = time.Now()
	}
	settling := time.Until(g.began.Add(settleTime))
	g.mu.Unlock()
	if settling > 0 {
		select {
		case <-time.After(settling):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		g.mu.Lock()
		none, changed := len(g.suspects) == 0, g.changed
		g.mu.Unlock()
		if none {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// BeginAlone waits until a suspect is the first one and no other message is handled.
func (g *Guard) BeginAlone(ctx context.Context, tag uint64) (end func(), err error) {
	g.mu.Lock()
	g.suspects = append(g.suspects, tag)
	slices.Sort(g.suspects)
	g.mu.Unlock()
	leave := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		i := slices.Index(g.suspects, tag)
		g.suspects = slices.Delete(g.suspects, i, i+1)
		close(g.changed)
		g.changed = make(chan struct{})
	}
	if err := g.awaitTurn(ctx, tag); err != nil {
		leave()
		return nil, fmt.Errorf("waiting for the other suspects: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, aloneTimeout)
	defer cancel()
	if g.handlers.Acquire(limited, allHandlers) != nil { // the others do not return
		return leave, nil
	}
	return func() {
		g.handlers.Release(allHandlers)
		leave()
	}, nil
}

// awaitTurn waits until no suspect was delivered earlier.
func (g *Guard) awaitTurn(ctx context.Context, tag uint64) error {
	pause := time.NewTimer(suspectsPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		g.mu.Lock()
		first, changed := g.suspects[0] == tag, g.changed
		g.mu.Unlock()
		if first {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
