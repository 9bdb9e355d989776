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

// Messages that fail alike open the breaker at the fifth, but within 10 s of a success
// at the thousandth.
func TestRecentSuccessKeepsTheBreakerClosed(t *testing.T) {
	start := time.Now()
	for name, test := range map[string]struct {
		succeeded time.Duration // before the failures
		cause     Cause
		opensAt   int
	}{
		"never succeeded":       {0, MessageFailure, 5},
		"succeeded 9 s ago":     {9 * time.Second, MessageFailure, 1000},
		"succeeded 10 s ago":    {10 * time.Second, MessageFailure, 5},
		"unavailable, 1 ms ago": {time.Millisecond, Unavailable, 5},
		"timed out, 1 ms ago":   {time.Millisecond, TimedOut, 5},
	} {
		t.Run(name, func(t *testing.T) {
			now := start
			b := New(retry.Breaker{}, func() time.Time { return now })
			if test.succeeded > 0 {
				b.RecordSuccess(b.Begin())
			}
			now = now.Add(test.succeeded)
			for n := 1; n <= test.opensAt; n++ {
				if open, _, _ := b.state(); open {
					t.Fatalf("open after %d failures", n-1)
				}
				effect := b.RecordFailure(b.Begin(), schemas.State{Message: fmt.Sprint(n)}, Failure{Cause: test.cause})
				if returned := n >= 5 || test.cause == Unavailable; returned != (effect == AttemptReturned) {
					t.Fatalf("failure %d: %d", n, effect)
				}
			}
			if open, _, _ := b.state(); !open {
				t.Errorf("closed after %d failures", test.opensAt)
			}
		})
	}
}
