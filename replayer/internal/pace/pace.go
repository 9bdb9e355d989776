// Package pace computes when messages are due that keep the spacing in time that they had before.
package pace

import "time"

// Pacer says when messages are due. With the zero value they are due at once. It is for one goroutine.
type Pacer struct {
	Factor float64       // 2: twice as fast; 0: no waiting
	MaxGap time.Duration // the longest wait between two messages; 0: no limit

	last time.Time // of the message before
	due  time.Time // when it was to be sent
}

// maxDelay is the delay that is made up for by shorter waits.
const maxDelay = time.Second

// Delay returns how long a message with a time is not due yet: it is due after the message before
// it as long as the two were apart, divided by the factor. The first message is due at once, and so
// is one that is earlier than the message before it.
func (p *Pacer) Delay(at time.Time) time.Duration {
	if p.Factor <= 0 {
		return 0
	}
	now := time.Now()
	if !p.last.IsZero() {
		p.due = p.due.Add(p.gap(at))
	}
	if p.due.Before(now.Add(-maxDelay)) {
		p.due = now
	}
	p.last = at
	return max(0, p.due.Sub(now))
}

func (p *Pacer) gap(at time.Time) time.Duration {
	gap := time.Duration(float64(max(at.Sub(p.last), 0)) / p.Factor)
	if p.MaxGap > 0 {
		gap = min(gap, p.MaxGap)
	}
	return gap
}
