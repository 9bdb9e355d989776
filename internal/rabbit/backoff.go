package rabbit

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is a pause that doubles from Min to Max with every consecutive failure.
// Each pause is shortened at random by up to a half, so that the clients of a
// restarted broker do not all reconnect at the same moment.
type Backoff struct {
	Min time.Duration // zero: 100 ms
	Max time.Duration // zero: 10 s
}

const (
	defaultBackoffMin = 100 * time.Millisecond
	defaultBackoffMax = 10 * time.Second

	// A connection or consumer that lived at least this long resets the pause to the
	// shortest. A shorter life may end for the same cause each time.
	healthyAfter = 10 * time.Second
)

func (b Backoff) withDefaults() Backoff {
	if b.Min <= 0 {
		b.Min = defaultBackoffMin
	}
	if b.Max <= 0 {
		b.Max = defaultBackoffMax
	}
	b.Max = max(b.Max, b.Min)
	return b
}

// pause returns the time to wait after the given number of consecutive failures, at
// least 1.
func (b Backoff) pause(failures int) time.Duration {
	d := b.Max
	if shift := failures - 1; shift < 32 && b.Min<<shift > 0 {
		d = min(b.Min<<shift, b.Max)
	}
	return d - rand.N(d/2+1)
}

// wait pauses after the given number of failures; false if ctx ended first.
func (b Backoff) wait(ctx context.Context, failures int) bool {
	timer := time.NewTimer(b.pause(failures))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
