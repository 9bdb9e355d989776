package breaker

import (
	"fmt"
	"testing"
	"time"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// An attempt that began in an outage and ends after it, as one that runs into its
// time-out while another probe succeeds, loses nothing and opens nothing.
func TestAttemptThatOutlivesItsOutage(t *testing.T) {
	b := New(retry.Breaker{Messages: 2}, time.Now)
	late := Failure{Cause: TimedOut, Failure: schemas.Failure{Type: "timeout"}}
	fail := func(epoch int, message string) Effect {
		return b.RecordFailure(epoch, schemas.State{Message: message}, late)
	}
	if got := fail(b.Begin(), "m1"); got != AttemptCounts {
		t.Errorf("the first of a row: %d", got)
	}
	before := b.Begin()
	if got := fail(b.Begin(), "m2"); got != AttemptReturned {
		t.Errorf("what opens the breaker: %d", got)
	}
	probes := []int{b.Begin(), b.Begin(), b.Begin()}
	b.RecordSuccess(before)
	if open, _, _ := b.state(); !open {
		t.Error("an attempt from before the outage closed the breaker")
	}
	b.RecordSuccess(b.Begin())
	for i, epoch := range append(probes, before) {
		if got := fail(epoch, fmt.Sprint("p", i)); got != AttemptReturned {
			t.Errorf("attempt %d of the outage: %d", i, got)
		}
	}
	if open, _, _ := b.state(); open {
		t.Error("attempts of the outage opened the breaker again")
	}
	if !b.Refund(schemas.State{Message: "m1", Attempt: 1}) || b.Refund(schemas.State{Message: "m1", Attempt: 1}) {
		t.Error("the first of the row gets its attempt back, once")
	}
}
