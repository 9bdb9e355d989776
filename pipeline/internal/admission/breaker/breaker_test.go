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

// The breaker opens by failures of different messages in a row, within a time, that the
// same outage may cause.
func TestRowThatOpensTheBreaker(t *testing.T) {
	status := func(code int) Failure {
		return Failure{Failure: schemas.Failure{Type: statusErrorType, Message: fmt.Sprintf("http://shop answered %d: no", code)}}
	}
	refused := Failure{Cause: Unavailable, Failure: schemas.Failure{Message: "connection refused"}}
	busy := Failure{Cause: Unavailable, Failure: status(503).Failure}
	timedOut := Failure{Cause: TimedOut, Failure: schemas.Failure{Type: "timeout"}}
	permanent := Failure{Cause: DecidedByHandler}
	success := Failure{Cause: -1}
	row := func(failures ...Failure) []Failure { return failures }
	for name, test := range map[string]struct {
		row      []Failure
		messages int           // 0: each failure is of another message
		pause    time.Duration // between them
		opens    bool
	}{
		"unavailable in all ways":   {row: row(refused, busy, timedOut, refused, busy), opens: true},
		"four":                      {row: row(refused, busy, timedOut, refused)},
		"alike":                     {row: row(status(404), status(404), status(404), status(404), status(404)), opens: true},
		"unlike":                    {row: row(status(404), status(500), status(404), status(500), status(404), status(500), status(404))},
		"unlike, with time-outs":    {row: row(status(404), timedOut, status(404), timedOut, status(404), timedOut, status(404))},
		"permanent between":         {row: row(refused, refused, permanent, refused, refused, refused), opens: true},
		"permanent":                 {row: row(permanent, permanent, permanent, permanent, permanent, permanent)},
		"a success between":         {row: row(refused, refused, refused, refused, success, refused, refused)},
		"of four messages":          {row: row(refused, refused, refused, refused, refused, refused, refused, refused), messages: 4},
		"of five messages":          {row: row(refused, refused, refused, refused, refused), messages: 5, opens: true},
		"in 5 minutes":              {row: row(refused, refused, refused, refused, refused), pause: 75 * time.Second, opens: true},
		"five, but no five at once": {row: row(refused, refused, refused, refused, refused, refused), pause: 76 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			b := New(retry.Breaker{}, func() time.Time { return now })
			for i, f := range test.row {
				if test.messages > 0 {
					i %= test.messages
				}
				if f.Cause == success.Cause {
					b.RecordSuccess(b.Begin())
				} else {
					b.RecordFailure(b.Begin(), schemas.State{Message: fmt.Sprint(i)}, f)
				}
				now = now.Add(test.pause)
			}
			if open, _, _ := b.state(); open != test.opens {
				t.Errorf("open: %t", open)
			}
		})
	}
}

// A message fails whenever it is tried, while others succeed: it waits once, and then its
// attempts count. If its error is another one each time, as of a proxy whose upstream it
// ends, it waits once before each.
func TestMessageThatIsUnavailableAlone(t *testing.T) {
	for name, errors := range map[string][]string{
		"the same": {"refused"}, "others": {"refused", "reset", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			b := New(retry.Breaker{}, func() time.Time { return now })
			state := schemas.State{Message: "m"}
			for n := range 6 {
				now = now.Add(time.Minute)
				b.RecordSuccess(b.Begin())
				why := Failure{Cause: Unavailable, Failure: schemas.Failure{Message: errors[n%len(errors)]}}
				effect, want := b.RecordFailure(b.Begin(), state, why), WaitsReset
				if n == 0 || len(errors) > 1 && n%2 == 0 {
					want = AttemptReturned
				}
				if effect != want {
					t.Errorf("failure %d: %d, want %d", n+1, effect, want)
				}
				before := state
				state = state.Failed(now, 0, "orders", why.Failure)
				switch effect {
				case AttemptReturned:
					state.Attempt = before.Attempt
					state = state.Waited(now)
				case WaitsReset:
					state.Waits, state.WaitsSince = 0, time.Time{}
				}
			}
		})
	}
}

// Retry-After lengthens the pause before a probe, up to the longest pause, and never
// shortens it.
func TestRequestedPause(t *testing.T) {
	for requested, want := range map[time.Duration]time.Duration{
		0: time.Second, 100 * time.Millisecond: time.Second, 7 * time.Second: 7 * time.Second, time.Hour: time.Minute,
	} {
		b := New(retry.Breaker{Messages: 1}, time.Now)
		b.RecordFailure(b.Begin(), schemas.State{Message: "m"}, Failure{Cause: Unavailable, RequestedPause: requested})
		if got := b.Pause(); got != want {
			t.Errorf("%s: a pause of %s, want %s", requested, got, want)
		}
	}
}
