// Package pace sends messages with the spacing in time that they had before.
package pace

import (
	"context"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

// Pacer waits between messages. The zero value does not wait. It is for one goroutine.
type Pacer struct {
	Factor float64       // 2: twice as fast; 0: no waiting
	MaxGap time.Duration // the longest wait between two messages; 0: no limit

	last time.Time // of the message before
	due  time.Time // when it was to be sent
}

// maxDelay is the delay that is made up for by shorter waits.
const maxDelay = time.Second

// Wait waits until a message with a time is due: after the message before it as long as the
// two were apart, divided by the factor. It does not wait before the first message, nor for
// one that is earlier than the message before it.
func (p *Pacer) Wait(ctx context.Context, at time.Time) error {
	if p.Factor <= 0 {
		return nil
	}
	now := time.Now()
	if !p.last.IsZero() {
		p.due = p.due.Add(p.gap(at))
	}
	if p.due.Before(now.Add(-maxDelay)) {
		p.due = now
	}
	p.last = at
	if !p.due.After(now) {
		return nil
	}
	return backoff.Sleep(ctx, p.due.Sub(now))
}

func (p *Pacer) gap(at time.Time) time.Duration {
	gap := time.Duration(float64(max(at.Sub(p.last), 0)) / p.Factor)
	if p.MaxGap > 0 {
		gap = min(gap, p.MaxGap)
	}
	return gap
}
