// Package backoff makes pauses: between attempts, where they grow with every failure, and of a
// given length.
package backoff

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	mathrand "math/rand/v2"
	"time"
)

// Backoff is a pause that doubles from Min to Max with every consecutive failure.
// Each pause is shortened at random by up to a half, so that the clients of a
// restarted server do not all come back at the same moment. The zero value makes no
// pauses.
type Backoff struct {
	Min time.Duration
	Max time.Duration // at least Min
}

// Pause returns the time to wait after the given number of consecutive failures, at
// least 1.
func (b Backoff) Pause(failures int) time.Duration {
	if b.Min <= 0 {
		return 0
	}
	pause := b.Max
	if shift := failures - 1; shift < 32 && b.Min<<shift > 0 {
		pause = min(b.Min<<shift, b.Max)
	}
	return pause - Below(pause/2+1)
}

// Below returns a random duration of at least 0 that is shorter than end, which is more than 0.
func Below(end time.Duration) time.Duration { return time.Duration(Random().Int64N(int64(end))) }

// Random returns random numbers of crypto/rand, so that a simulation can seed all that a process
// draws (see testing/cryptotest).
func Random() *mathrand.Rand { return mathrand.New(source{}) }

// source implements math/rand/v2.Source.
type source struct{}

// Uint64 implements math/rand/v2.Source.
func (source) Uint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// Wait waits for Pause, or longer if atLeast is longer. Its error is the cause of ctx
// if that ends first.
func (b Backoff) Wait(ctx context.Context, failures int, atLeast time.Duration) error {
	return Sleep(ctx, max(b.Pause(failures), atLeast))
}

// Sleep waits for d. Its error is the cause of ctx if that has ended then.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
