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

// Next decides about a message whose attempt'th attempt (the first is 1) failed
// with err. The same arguments give the same decision but for jitter, for which
// random returns numbers from 0 up to 1; nil: no jitter. An error that is marked
// as Unavailable defers the message, with the delay of Deferral.
func (p Policy) Next(err error, attempt int, random func() float64) Decision {
	var unavailable *UnavailableError
	if !IsPermanent(err) && errors.As(err, &unavailable) {
		return Deferral(err, 0)
	}
	return p.Count(err, attempt, random)
}

// Count is Next for an attempt that counts even if its error is marked as
// Unavailable: the message fails while others succeed, or was deferred for too
// long.
func (p Policy) Count(err error, attempt int, random func() float64) Decision {
	if IsPermanent(err) {
		return Decision{Action: Poison, Reason: "permanent"}
	}
	own := p.forClass(ClassOf(err))
	if attempt >= own.attempts() {
		return Decision{Action: Poison, Reason: fmt.Sprintf("failed %d of %d attempts", attempt, own.attempts())}
	}
	delay := own.jittered(own.delay(max(attempt, 1)), random)
	var after *AfterError
	if errors.As(err, &after) && (!after.AtLeast || after.Delay > delay) {
		delay = roundUp(after.Delay)
	}
	return Decision{Action: Retry, Delay: delay}
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
