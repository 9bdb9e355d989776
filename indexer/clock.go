package indexer

import (
	"sync"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// clock numbers events: by the microseconds of the wall clock, and always above the
// previous number, even if the wall clock is set back.
type clock struct {
	now func() time.Time

	mu   sync.Mutex // guards last
	last int64
}

// next returns a new sequence and the current time.
func (c *clock) next() (int64, time.Time) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last+1, now.UnixMicro())
	return c.last, now
}

// advance lets all later sequences be above the present time. It returns a sequence that
// they are above.
func (c *clock) advance() int64 {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, now.UnixMicro())
	return c.last
}

// current returns the last sequence, or the one that the clock was raised to.
func (c *clock) current() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// raise lets all later sequences be above a stored one. It ignores values beyond
// eventstore.MaxSequence, which no indexer can have stored.
func (c *clock) raise(above int64) {
	if above > eventstore.MaxSequence {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, above)
}
