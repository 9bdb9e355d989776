package retry

import (
	"math"
	"slices"
	"time"
)

// MaxDelay is the longest delay: RabbitMQ keeps a queue's TTL in 32 bits of
// milliseconds (https://www.rabbitmq.com/docs/ttl), about 49 days.
const MaxDelay = (1<<32 - 1) * time.Millisecond

const (
	defaultFactor   = 2.0
	defaultDelayCap = longestStandardDelay
)

// Policy says how many attempts a message has and how long it waits between
// them: by a list of delays, or by First and the fields after it. The zero
// value makes one attempt. Validate lists the bounds.
type Policy struct {
	// Delays are waited between the first attempt and the second, the second
	// and the third, and so on; there is one attempt more than delays. Each
	// is exact and has a queue of its own. Whole milliseconds, up to MaxDelay.
	Delays []time.Duration

	// First is the delay before the second attempt where delays grow instead
	// of being listed. Whole milliseconds, up to MaxDelay. Zero: Delays count.
	First time.Duration

	// Factor is how many times longer each delay is than the one before; at
	// least 1. Zero: 2. The delays are cut to whole milliseconds.
	Factor float64

	// Cap is the longest delay. Zero: 24 hours.
	Cap time.Duration

	// Jitter is the share of each delay, from 0 to 1, by which it may be
	// shortened at random, so that what failed together does not come back
	// together. A delay has a queue, so a shortened one is rounded up to the
	// next of StandardDelays: a jitter much below a third has little effect. Zero:
	// every delay is exact.
	Jitter float64

	// Attempts is how many there are with First, the first attempt included.
	Attempts int

	// Classes have policies of their own, without further classes, for errors
	// of that class. The attempts of a message are counted over all classes.
	Classes map[string]Policy
}

// Default returns the policy of routes that name none.
//
//	attempt 1   at once
//	attempt 2   1s later
//	attempt 3   10s later
//	attempt 4   30s later
func Default() Policy {
	return Policy{Delays: []time.Duration{time.Second, 10 * time.Second, 30 * time.Second}}
}

// AllDelays lists every delay that the policy and its classes name, the
// shortest first, each once. Each has a queue of its own.
func (p Policy) AllDelays() []time.Duration {
	all := p.ownDelays()
	for _, class := range p.Classes {
		all = append(all, class.ownDelays()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// MaxAttempts returns the number of attempts after which a message of any class is
// poison.
func (p Policy) MaxAttempts() int {
	most := p.attempts()
	for _, class := range p.Classes {
		most = max(most, class.attempts())
	}
	return most
}

// WithAttempts returns the policy with n attempts for errors of any class, the first
// included; at least 1. Listed delays are cut, or the last of them repeats; a policy
// without any waits 1 s.
func (p Policy) WithAttempts(n int) Policy {
	n = max(n, 1)
	if p.First > 0 {
		p.Attempts = n
	} else {
		last := time.Second
		if len(p.Delays) > 0 {
			last = p.Delays[len(p.Delays)-1]
		}
		delays := slices.Clone(p.Delays[:min(n-1, len(p.Delays))])
		for len(delays) < n-1 {
			delays = append(delays, last)
		}
		p.Delays = delays
	}
	classes := map[string]Policy{}
	for class, own := range p.Classes {
		classes[class] = own.WithAttempts(n)
	}
	p.Classes = classes
	return p
}

// ownDelays lists the delays of the policy without its classes, each once, in
// their order.
func (p Policy) ownDelays() []time.Duration {
	var delays []time.Duration
	for attempt := 1; attempt < p.attempts(); attempt++ {
		d := p.delay(attempt)
		delays = append(delays, d)
		if p.First > 0 && (d == p.longestDelay() || p.factor() == 1) {
			break // every further delay is the same
		}
	}
	return slices.Compact(delays)
}

// forClass returns the policy for errors of a class.
func (p Policy) forClass(class string) Policy {
	if own, ok := p.Classes[class]; ok {
		return own
	}
	return p
}

// attempts returns the number of attempts, the first included.
func (p Policy) attempts() int {
	if p.First > 0 {
		return max(p.Attempts, 1)
	}
	return len(p.Delays) + 1
}

// delay returns the delay after the attempt'th attempt, before jitter.
func (p Policy) delay(attempt int) time.Duration {
	if p.First == 0 {
		return p.Delays[attempt-1]
	}
	d := float64(p.First) * math.Pow(p.factor(), float64(attempt-1))
	if d >= float64(p.longestDelay()) {
		return p.longestDelay()
	}
	return time.Duration(d).Truncate(time.Millisecond)
}

func (p Policy) factor() float64 {
	if p.Factor == 0 {
		return defaultFactor
	}
	return p.Factor
}

func (p Policy) longestDelay() time.Duration {
	if p.Cap == 0 {
		return max(defaultDelayCap, p.First)
	}
	return p.Cap
}

// jittered shortens d at random. Its result has a queue: a standard delay, or d.
func (p Policy) jittered(d time.Duration, random func() float64) time.Duration {
	if p.Jitter == 0 || random == nil {
		return d
	}
	short := time.Duration(float64(d) * (1 - p.Jitter*random()))
	if short > longestStandardDelay {
		return d
	}
	return min(roundUp(short), d)
}
