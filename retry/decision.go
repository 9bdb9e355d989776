package retry

import (
	"errors"
	"fmt"
	"time"
)

// Verb is what happens next.
type Verb int

// A failed message is tried again, waits without losing an attempt, or is given up.
const (
	Again Verb = iota + 1
	Wait
	Poison
)

func (v Verb) String() string {
	switch v {
	case Again:
		return "again"
	case Wait:
		return "wait"
	case Poison:
		return "poison"
	}
	return "nothing"
}

// Decision is what happens to a message after a failed attempt.
type Decision struct {
	Verb   Verb
	Delay  time.Duration // for Again and Wait; whole milliseconds
	Reason string        // for Poison
}

// Next says what happens to a message whose attempt'th attempt (the first is 1)
// failed with err. The same arguments give the same decision but for jitter,
// for which random gives numbers from 0 up to 1; nil: no jitter. An error that
// is marked as Unavailable makes the message wait, as WaitAgain says.
func (p Policy) Next(err error, attempt int, random func() float64) Decision {
	var unavailable *UnavailableError
	if !IsPermanent(err) && errors.As(err, &unavailable) {
		return WaitAgain(err, 0)
	}
	return p.Count(err, attempt, random)
}

// Count is Next for an attempt that counts also where its error is marked as
// Unavailable: a message that fails while others succeed, or has waited for too
// long.
func (p Policy) Count(err error, attempt int, random func() float64) Decision {
	if IsPermanent(err) {
		return Decision{Verb: Poison, Reason: "permanent"}
	}
	own := p.ofClass(ClassOf(err))
	if attempt >= own.attempts() {
		return Decision{Verb: Poison, Reason: fmt.Sprintf("failed %d of %d attempts", attempt, own.attempts())}
	}
	delay := own.jittered(own.delay(max(attempt, 1)), random)
	var after *AfterError
	if errors.As(err, &after) && (!after.AtLeast || after.Delay > delay) {
		delay = roundUp(after.Delay)
	}
	return Decision{Verb: Again, Delay: delay}
}

// WaitAgain is the decision about a message that waits for an unavailable service
// and has done so a number of times before: 1 s, twice as long each time, up to
// 100 s, rounded up to the next of Ladder. It waits longer where err says so by
// After or AtLeast.
func WaitAgain(err error, before int) Decision {
	delay := min(firstWait<<min(before, mostDoublings), longestWait)
	var after *AfterError
	if errors.As(err, &after) {
		delay = max(delay, after.Delay)
	}
	return Decision{Verb: Wait, Delay: roundUp(delay)}
}

const (
	firstWait     = time.Second
	longestWait   = 100 * time.Second
	mostDoublings = 10
)
