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
// for which random gives numbers from 0 up to 1; nil: no jitter.
func (p Policy) Next(err error, attempt int, random func() float64) Decision {
	var permanent *PermanentError
	if errors.As(err, &permanent) {
		return Decision{Verb: Poison, Reason: "permanent"}
	}
	var after *AfterError
	asked := errors.As(err, &after)
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		if asked {
			return Decision{Verb: Wait, Delay: roundUp(after.Delay)}
		}
		return Decision{Verb: Wait, Delay: waitWhileUnavailable}
	}
	own := p.ofClass(ClassOf(err))
	if attempt >= own.attempts() {
		return Decision{Verb: Poison, Reason: fmt.Sprintf("failed %d of %d attempts", attempt, own.attempts())}
	}
	if asked {
		return Decision{Verb: Again, Delay: roundUp(after.Delay)}
	}
	return Decision{Verb: Again, Delay: own.jittered(own.delay(max(attempt, 1)), random)}
}
