package indexer

import (
	"sync"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// clock gives each event its place: microseconds of the wall clock, but always
// above the one before, whatever the wall clock does.
type clock struct {
	now func() time.Time

	mu   sync.Mutex // guards last
	last int64
}

// next also says what time it is.
func (c *clock) next() (int64, time.Time) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last+1, now.UnixMicro())
	return c.last, now
}

// highest is the last sequence that was given, or what the clock was raised to.
func (c *clock) current() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// raise puts everything to come above a sequence, unless it is one that no clock gave.
func (c *clock) raise(above int64) {
	if above > schemas.MaxSequence {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, above)
}
