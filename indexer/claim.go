package indexer

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// A claim is the entry of a session in the watermarks of its source. The session saves it
// before it gives the first sequence. So a reader that saw the watermarks without the entry
// has read only up to sequences that the clock of the session is above.
type claim struct {
	queue   string
	session string
	cancel  context.CancelCauseFunc // ends the session

	// watermarks.mu guards the fields below.
	watermark int64     // the highest one that may have been saved: later sequences are above
	replaces  bool      // a former session, so that the first batch may restore sequences above the watermark
	begun     bool      // a batch
	heldUntil time.Time // the watermark does not move before
	confirmed time.Time // when the last request began that saved the entry
	unwritten []*batch  // that have sequences
	lost      bool
}

func newClaim(queue string, cancel context.CancelCauseFunc) *claim {
	return &claim{queue: queue, session: rand.Text(), cancel: cancel}
}

// errClaimLost ends a session whose queue another consumer indexes by now, or whose entry
// was released because it was not saved for long.
var errClaimLost = errors.New("another indexer has claimed the queue, of this RabbitMQ or of another one that has the same source (setting source)")

// held reports whether the watermark may not move, because requests of a former session may still reach the store, or
// because messages that it left are not in a batch yet: a slow store answers long after the first delivery.
func (c *claim) held() bool {
	return c.replaces && !c.begun || time.Now().Before(c.heldUntil)
}

// begin records that a batch takes sequences from now on, or restores some if its first message was redelivered.
func (w *watermarks) begin(c *claim, b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.above = w.clock.current()
	if b.startsRedelivered {
		b.above = min(b.above, c.watermark)
	}
	c.unwritten = append(c.unwritten, b)
	c.begun = true
}

// hold stops the watermark and returns it, since the batch may restore sequences above it.
func (w *watermarks) hold(c *claim, b *batch) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.above = min(b.above, c.watermark)
	return c.watermark
}

// moveOn ends hold: the sequences of the batch are above a sequence.
func (w *watermarks) moveOn(c *claim, b *batch, above int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.above = max(c.watermark, above)
}

// written records that the store has every event of a batch, which is the oldest.
func (w *watermarks) written(c *claim) {
	w.mu.Lock()
	c.unwritten[0] = nil
	c.unwritten = c.unwritten[1:]
	w.mu.Unlock()
	w.wake()
}

// wake lets the watermarks be saved soon.
func (w *watermarks) wake() {
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// advance moves the watermark as far as possible.
func (w *watermarks) advance(c *claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked(c)
}

func (w *watermarks) advanceLocked(c *claim) {
	if c.held() {
		return
	}
	next := w.clock.advance()
	for _, b := range c.unwritten {
		next = min(next, b.above)
	}
	c.watermark = max(c.watermark, next)
}

// confirm returns nil if the entry was saved a short time ago, or is now: then no other
// session relies yet on the end of this one.
func (w *watermarks) confirm(ctx context.Context, c *claim) error {
	for {
		w.mu.Lock()
		lost, confirmed := c.lost, c.confirmed
		w.mu.Unlock()
		switch {
		case lost:
			return errClaimLost
		case time.Since(confirmed) < claimValidity:
			return nil
		}
		if err := w.save(ctx); err != nil {
			return err
		}
	}
}

// confirmClaim confirms the claim before a request that adds documents. Without an answer
// of the store it tries again within the budget.
func (s *session) confirmClaim(ctx context.Context, budget *retryBudget) error {
	for {
		err := s.watermarks.confirm(ctx, s.claim)
		if err == nil || errors.Is(err, errClaimLost) {
			return err
		}
		if err := budget.waitAfterWrite(ctx, err); err != nil {
			return err
		}
	}
}
