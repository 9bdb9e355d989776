package retry

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// MaxDelay is the longest delay: RabbitMQ keeps a queue's TTL in 32 bits of
// milliseconds (https://www.rabbitmq.com/docs/ttl), about 49 days.
const MaxDelay = (1<<32 - 1) * time.Millisecond

// Policy says how long a message waits between its attempts. The zero value
// makes one attempt.
type Policy struct {
	// Delays are waited between the first attempt and the second, the second
	// and the third, and so on; there is one attempt more than delays. Each
	// is exact and has a queue of its own. Whole milliseconds.
	Delays []time.Duration

	// Classes have delays of their own for errors of that class.
	Classes map[string][]time.Duration
}

// Default is the policy of routes that name none.
//
//	attempt 1   at once
//	attempt 2   1s later
//	attempt 3   10s later
//	attempt 4   30s later
func Default() Policy {
	return Policy{Delays: []time.Duration{time.Second, 10 * time.Second, 30 * time.Second}}
}

// Validate says whether every delay can be waited.
func (p Policy) Validate() error {
	for _, d := range p.AllDelays() {
		if d <= 0 || d > MaxDelay || d%time.Millisecond != 0 {
			return fmt.Errorf("delay %s: expected whole milliseconds between 1ms and %s", d, MaxDelay)
		}
	}
	return nil
}

// AllDelays lists every delay that the policy names, the shortest first, each once.
func (p Policy) AllDelays() []time.Duration {
	all := slices.Clone(p.Delays)
	for _, delays := range p.Classes {
		all = append(all, delays...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Next says what happens to a message whose attempt'th attempt failed with err.
func (p Policy) Next(err error, attempt int) Decision {
	var permanent *PermanentError
	if errors.As(err, &permanent) {
		return Decision{Verb: Poison, Reason: "permanent"}
	}
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		return Decision{Verb: Wait, Delay: waitWhileUnavailable}
	}
	delays := p.delaysOf(ClassOf(err))
	if attempt > len(delays) {
		return Decision{Verb: Poison, Reason: fmt.Sprintf("failed %d of %d attempts", attempt, len(delays)+1)}
	}
	var after *AfterError
	if errors.As(err, &after) {
		return Decision{Verb: Again, Delay: roundUp(after.Delay)}
	}
	return Decision{Verb: Again, Delay: delays[attempt-1]}
}

func (p Policy) delaysOf(class string) []time.Duration {
	if delays, ok := p.Classes[class]; ok {
		return delays
	}
	return p.Delays
}

// Verb is what happens next.
type Verb int

// A failed message is tried again, waits without losing an attempt, or is given up.
const (
	Again Verb = iota + 1
	Wait
	Poison
)

// Decision is what happens to a message after a failed attempt.
type Decision struct {
	Verb   Verb
	Delay  time.Duration // for Again and Wait
	Reason string        // for Poison
}
