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
// them: by a list of delays, or by First and the fields after it, then by hours of
// the day. The zero value makes one attempt. Validate lists the bounds.
type Policy struct {
	// Delays are waited between the first attempt and the second, the second
	// and the third, and so on; there is one attempt more than delays. Each
	// is exact and has its own queue. Whole milliseconds, up to MaxDelay.
	Delays []time.Duration `json:"delays,omitempty"`

	// First is the delay before the second attempt where delays grow instead
	// of being listed. Whole milliseconds, up to MaxDelay. Zero: Delays count.
	First time.Duration `json:"first,omitempty"`

	// Factor is how many times longer each delay is than the one before; at
	// least 1. Zero: 2. The delays are cut to whole milliseconds.
	Factor float64 `json:"factor,omitempty"`

	// Cap is the longest delay. Zero: 24 hours.
	Cap time.Duration `json:"cap,omitempty"`

	// Jitter is the share of each delay, from 0 to 1, by which it may be
	// shortened at random, so that what failed together does not come back
	// together. A delay has a queue, so a shortened one is rounded up to the
	// next of StandardDelays: a jitter much below a third has little effect. Zero:
	// every delay is exact.
	Jitter float64 `json:"jitter,omitempty"`

	// Attempts is how many there are with First, the first attempt included.
	Attempts int `json:"attempts,omitempty"`

	// At are hours of the day, such as 03:00, of the attempts after those that Delays or
	// First give: the first attempt after these is at the next time that clocks show At[0],
	// and so on. An hour that a change of clocks repeats counts once; one that it leaves out
	// is an hour later.
	At []string `json:"at,omitempty"`

	// NoAttempts are windows into which no attempt falls but the first of a message, which
	// is made when it arrives. A delay that ends in one is longer, up to its end. They hold
	// for all classes.
	NoAttempts []Window `json:"no_attempts,omitempty"`

	// Spread is the time after an hour of At, or after the end of a window, over which the
	// attempts of many messages are spread at random. It holds for all classes. Zero: 1 min.
	Spread time.Duration `json:"spread,omitempty"`

	// TimeZone is the time zone of At and NoAttempts, such as Europe/Berlin, for all classes.
	// "": UTC.
	TimeZone string `json:"time_zone,omitempty"`

	// GiveUpAfter is the time since the first failure of a message after which it has no
	// attempt: a failure whose next attempt would be later makes it poison. The wait for an
	// unavailable service ends then, too. A class without one has the value of the policy. Zero:
	// the number of attempts alone counts.
	GiveUpAfter time.Duration `json:"give_up_after,omitempty"`

	// Classes have their own policies, without further classes, for errors
	// of that class. The attempts of a message are counted over all classes.
	Classes map[string]Policy `json:"classes,omitempty"`
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
// shortest first, each once. Each has its own queue.
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
	switch {
	case len(p.At) > 0:
		delayed := min(n, p.delayed())
		if p.First > 0 {
			p.Attempts = delayed
		} else {
			p.Delays = p.Delays[:delayed-1]
		}
		p.At = repeated(p.At, n-delayed, "")
	case p.First > 0:
		p.Attempts = n
	default:
		p.Delays = repeated(p.Delays, n-1, time.Second)
	}
	classes := map[string]Policy{}
	for class, own := range p.Classes {
		classes[class] = own.WithAttempts(n)
	}
	p.Classes = classes
	return p
}

// repeated returns n items of a list: it is cut, or its last item repeats.
func repeated[T any](list []T, n int, ifEmpty T) []T {
	last := ifEmpty
	if len(list) > 0 {
		last = list[len(list)-1]
	}
	list = slices.Clone(list[:min(n, len(list))])
	for len(list) < n {
		list = append(list, last)
	}
	return list
}

// ownDelays lists the delays of the policy without its classes, each once, in
// their order.
func (p Policy) ownDelays() []time.Duration {
	var delays []time.Duration
	for attempt := 1; attempt < p.delayed(); attempt++ {
		d := p.delay(attempt)
		delays = append(delays, d)
		if p.First > 0 && (d == p.longestDelay() || p.factor() == 1) {
			break // every further delay is the same
		}
	}
	return slices.Compact(delays)
}

// ForClass returns the policy for errors of a class, with the fields that hold for all
// classes.
func (p Policy) ForClass(class string) Policy {
	own, ok := p.Classes[class]
	if !ok {
		p.Classes = nil
		return p
	}
	own.NoAttempts, own.Spread, own.TimeZone = p.NoAttempts, p.Spread, p.TimeZone
	if own.GiveUpAfter == 0 {
		own.GiveUpAfter = p.GiveUpAfter
	}
	return own
}

// attempts returns the number of attempts, the first included.
func (p Policy) attempts() int { return p.delayed() + len(p.At) }

// delayed returns the number of attempts without those at hours of the day, the first
// included.
func (p Policy) delayed() int {
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
