package indexer

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// clock gives each event its place: microseconds of the wall clock, but always
// above the one before, whatever the wall clock does.
type clock struct {
	now func() time.Time

	mu   sync.Mutex // guards last
	last int64
}

func (c *clock) next() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last+1, c.now().UnixMicro())
	return c.last
}

// raise puts everything to come above a sequence.
func (c *clock) raise(above int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, above)
}

// backoff is growing, jittered pauses.
type backoff struct{ attempt int }

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// wait pauses at least as long as the store asked for.
func (b *backoff) wait(ctx context.Context, asked time.Duration) error {
	pause := min(firstPause<<min(b.attempt, 10), lastPause)
	pause = max(asked, pause/2+rand.N(pause/2+1))
	b.attempt++
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
