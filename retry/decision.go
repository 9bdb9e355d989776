package retry

import (
	"errors"
	"fmt"
	"time"
)

// Action is the next step of a message whose attempt failed.
type Action int

const (
	Retry  Action = iota + 1 // after a delay, as the next attempt
	Defer                    // after a delay, as the same attempt
	Poison                   // no further attempt
)

// String returns the action in lower case.
func (a Action) String() string {
	switch a {
	case Retry:
		return "retry"
	case Defer:
		return "defer"
	case Poison:
		return "poison"
	}
	return "none"
}

// Decision is the action for one message, with its delay or its reason.
type Decision struct {
	Action Action
	Delay  time.Duration // for Retry and Defer; whole milliseconds
	Reason string        // for Poison
}

// Next decides about a message after a failure. The same arguments give the same decision
// but for jitter and spread, for which random returns numbers from 0 up to 1; nil: neither.
// An error that is marked as Unavailable defers the message, as Defer says.
func (p Policy) Next(f Failure, random func() float64) Decision {
	var unavailable *UnavailableError
	if !IsPermanent(f.Err) && errors.As(f.Err, &unavailable) {
		return p.Defer(f, 0, random)
	}
	return p.Count(f, random)
}

// Count is Next for an attempt that counts even if its error is marked as
// Unavailable: the message fails while others succeed, or was deferred for too
// long.
func (p Policy) Count(f Failure, random func() float64) Decision {
	if IsPermanent(f.Err) {
		return Decision{Action: Poison, Reason: "permanent"}
	}
	own := p.ForClass(ClassOf(f.Err))
	if f.Attempt >= own.attempts() {
		return Decision{Action: Poison, Reason: fmt.Sprintf("failed %d of %d attempts", f.Attempt, own.attempts())}
	}
	delay := own.delayAfter(max(f.Attempt, 1), f.Now, random)
	var after *AfterError
	if errors.As(f.Err, &after) && (!after.AtLeast || after.Delay > delay) {
		delay = roundUp(after.Delay)
	}
	return own.timed(Decision{Action: Retry, Delay: delay}, f, random)
}

// delayAfter returns the delay after the attempt'th attempt.
func (p Policy) delayAfter(attempt int, now time.Time, random func() float64) time.Duration {
	if attempt >= p.delayed() {
		return wholeMilliseconds(p.untilHour(attempt, now, random))
	}
	return p.jittered(p.delay(attempt), random)
}

// Defer is Deferral within the windows and the total time of the policy.
func (p Policy) Defer(f Failure, earlierDeferrals int, random func() float64) Decision {
	return p.ForClass(ClassOf(f.Err)).timed(Deferral(f.Err, earlierDeferrals), f, random)
}

// Deferral is the decision about a message that waits for an unavailable service
// and was deferred a number of times before. The delay is 1 s, twice as long each
// time, up to 100 s, rounded up to the next of StandardDelays. It is longer if err
// asks for that by After or AtLeast.
func Deferral(err error, earlierDeferrals int) Decision {
	delay := min(firstDeferral<<min(earlierDeferrals, maxDoublings), longestDeferral)
	var after *AfterError
	if errors.As(err, &after) {
		delay = max(delay, after.Delay)
	}
	return Decision{Action: Defer, Delay: roundUp(delay)}
}

const (
	firstDeferral   = time.Second
	longestDeferral = 100 * time.Second
	maxDoublings    = 10
)
