// Package crashloop finds the message whose handler ends the process, among the messages
// that were in flight with it.
package crashloop

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// mostAlone is the number of deliveries, of those that MaxDeliveries allows, in which a
	// suspect is handled alone.
	mostAlone = 2

	// aloneTimeout bounds the wait of a suspect for the other handlers.
	aloneTimeout = 10 * time.Second

	// aloneAfter is how long a suspect waits while no other one leaves the process. Suspects
	// come back from a delay together, and each that is still there when one of them ends
	// the process has another delivery.
	aloneAfter = time.Second

	allHandlers  = 1 << 30
	maxSurvivors = 10_000 // that are remembered, and as many requeued messages
)

// Guard keeps messages whose handler ends the process from doing so forever. The messages
// that were in flight with such a message have as many deliveries. So a message that had too
// many of them becomes a suspect, in its state, which goes from process to process: suspects
// are handled one at a time, while no other message of the route is. Only the deliveries of
// a suspect show that it ends the process.
type Guard struct {
	limit    int // deliveries without an outcome; not positive: none
	handlers *semaphore.Weighted

	mu        sync.Mutex      // guards the fields below
	busy      bool            // a suspect is handled, or waits for the other handlers
	leaving   int             // suspects that leave the process, to wait for another one
	left      time.Time       // when the last of them left, or the suspect that is handled came
	survivors map[string]bool // fingerprints of messages that had no outcome, though the process did not end
	requeued  int             // messages that no handler had when they were requeued
}

// New returns a Guard for the messages of one route, with a limit of deliveries without an
// outcome; not positive: none.
func New(limit int) *Guard {
	return &Guard{limit: limit, handlers: semaphore.NewWeighted(allHandlers), survivors: map[string]bool{}}
}

// Suspects reports whether a message becomes a suspect by its number of deliveries.
func (g *Guard) Suspects(deliveries int) bool { return g.limit > 0 && deliveries >= g.together() }

// Condemns reports whether a suspect becomes poison by its number of deliveries as a suspect,
// and returns the number of all its deliveries.
func (g *Guard) Condemns(asSuspect int) (all int, condemned bool) {
	all = g.together() + asSuspect
	return all, g.limit > 0 && all >= g.limit
}

// together returns the number of deliveries in which a message is handled together with others.
func (g *Guard) together() int { return max(1, g.limit-mostAlone) }

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
	if g.limit <= 0 || g.survivors[fingerprint] {
		return false
	}
	if g.requeued > 0 {
		g.requeued--
		return false
	}
	return true
}

// Begin waits until the handler may be called with a message that is no suspect.
func (g *Guard) Begin(ctx context.Context) (end func(), err error) {
	if err := g.handlers.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting for a handler that is to be alone: %w", err)
	}
	return func() { g.handlers.Release(1) }, nil
}

// BeginAlone waits until no other handler runs. It returns false, and no end, if another
// suspect is handled: a suspect that waits in the process would seem to end it, too. It does
// not wait forever for handlers that do not return.
func (g *Guard) BeginAlone(ctx context.Context) (end func(), ok bool, err error) {
	if !g.setBusy() {
		return nil, false, nil
	}
	limited, cancel := context.WithTimeout(ctx, aloneTimeout)
	defer cancel()
	acquired := g.handlers.Acquire(limited, allHandlers) == nil
	g.awaitLeaving(limited)
	end = func() {
		if acquired {
			g.handlers.Release(allHandlers)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.busy = false
	}
	if ctx.Err() != nil {
		end()
		return nil, false, fmt.Errorf("waiting for the other handlers: %w", ctx.Err())
	}
	return end, true, nil
}

// setBusy returns false if another suspect is handled.
func (g *Guard) setBusy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.busy
	g.busy = true
	if !was {
		g.left = time.Now()
	}
	return !was
}

// Leave is called when a suspect leaves the process because another one is handled. The returned
// function is called once its message is acknowledged.
func (g *Guard) Leave() (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaving++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.leaving--
		g.left = time.Now()
	}
}

// awaitLeaving waits until no suspect has left the process for aloneAfter, or ctx ends.
func (g *Guard) awaitLeaving(ctx context.Context) {
	for {
		g.mu.Lock()
		rest := aloneAfter - time.Since(g.left)
		if g.leaving > 0 {
			rest = aloneAfter
		}
		g.mu.Unlock()
		if rest <= 0 {
			return
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
