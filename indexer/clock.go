package indexer

import (
	"sync"
	"time"
)

// clock gives each event its place: microseconds of the wall clock, but always
// above the one before, whatever the wall clock does.
type clock struct {
	now func() time.Time

	mu    sync.Mutex // guards what follows
	last  int64
	given int64 // the last one that an event got, 0 before
}

// next also says what time it is.
func (c *clock) next() (int64, time.Time) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last+1, now.UnixMicro())
	c.given = c.last
	return c.last, now
}

// raise puts everything to come above a sequence.
func (c *clock) raise(above int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, above)
}

// newest is the last sequence that was given away, 0 where none was.
func (c *clock) newest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.given
}
