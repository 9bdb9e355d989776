package pipeline

import (
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// breaker is the circuit breaker of a route. The handler of the route reports how
// each attempt ended, and asks whether one that failed counts; the subscriber of
// the route asks how many messages to hand out.
//
//	          Messages different messages fail in a row
//	closed ───────────────────────────────────────────► open ◄┐
//	  ▲                                                  │    │ fail in a row
//	  │ Messages succeed                 a probe succeeds│    │
//	  └────────────── closed, a few at once ◄────────────┘────┘
//
// An attempt that began before the breaker opened does not close it. An attempt that began
// before it opened or closed, and fails after that, does not open it and is returned.
type breaker struct {
	cfg retry.Breaker
	now func() time.Time

	mu         sync.Mutex    // guards the fields below
	epoch      int           // how often the breaker opened or closed
	open       bool          // since the time in opened
	changed    chan struct{} // closed when open changes
	opened     time.Time
	last       verdict         // on the attempt that opened the breaker, or the newest of its probes
	streak     []recentFailure // failures since the latest success, oldest first
	succeeded  time.Time       // when an attempt succeeded last
	recovering int             // successes until the route handles Concurrency messages again
	rounds     int             // rounds of probes that failed since then
	refunds    []string        // messages whose attempt is refunded, oldest first
}

// recentFailure is a failure that may be caused by an outage.
type recentFailure struct {
	message string // instance id
	kind    string
	at      time.Time
	counted bool // as an attempt
}

// breakerDecision is the effect of a failure on the attempts of its message.
type breakerDecision int

const (
	attemptCounts   breakerDecision = iota // the policy decides
	attemptReturned                        // the message waits and loses no attempt
	ownFailure                             // the policy decides; other messages succeed, so earlier waits are reset
)

const (
	maxStreak  = 1000 // signals
	maxRefunds = 1000 // messages
	maxProbes  = 100  // of one round
)

func newBreaker(cfg retry.Breaker, now func() time.Time) *breaker {
	return &breaker{cfg: cfg.WithDefaults(), now: now, changed: make(chan struct{})}
}

// begin is called before an attempt; its result is passed on with the result of the attempt.
func (b *breaker) begin() (epoch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.epoch
}

// recordSuccess records that an attempt succeeded.
func (b *breaker) recordSuccess(epoch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open && epoch < b.epoch {
		return
	}
	b.succeeded, b.streak = b.now(), nil
	switch {
	case b.open:
		b.recovering = b.cfg.Messages
		b.setOpen(false)
	case b.recovering > 1:
		b.recovering--
	default:
		b.recovering, b.rounds = 0, 0
	}
}

// recordFailure records that an attempt failed, and decides whether it counts. before is
// the state of the message before the attempt, with an instance id.
func (b *breaker) recordFailure(epoch int, before schemas.State, v verdict) breakerDecision {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	breakerDecision := b.classify(epoch, before, v, now)
	if b.waitsExhausted(before, v.cause, now) {
		return attemptCounts
	}
	return breakerDecision
}

// classify decides as recordFailure does, without the limit of waits.
func (b *breaker) classify(epoch int, before schemas.State, v verdict, now time.Time) breakerDecision {
	switch {
	case v.cause == decidedByHandler:
		return attemptCounts
	case epoch < b.epoch, v.cause == returnedByHandler:
		return attemptReturned
	case b.open:
		b.last = v
		return attemptReturned
	case b.isMessageFault(before, v):
		return ownFailure
	}
	counted := v.cause == messageFailure || v.cause == timedOut
	b.addFailure(recentFailure{before.Message, kindOf(v.failure, v.cause), now, counted}, v)
	if b.open || !counted {
		return attemptReturned
	}
	return attemptCounts
}

// waitsExhausted reports whether the message has waited as often as it may.
func (b *breaker) waitsExhausted(before schemas.State, of cause, now time.Time) bool {
	if of == messageFailure {
		return b.cfg.ExhaustedAlike(before.Waits, before.WaitsSince, now)
	}
	return b.cfg.Exhausted(before.Waits, before.WaitsSince, now)
}

// isMessageFault reports whether the message fails as before although other messages
// succeeded in between. A failure that does not count becomes one only if a message
// succeeded since this one failed last. A process without a free file for a connection
// is never the fault of the message.
func (b *breaker) isMessageFault(before schemas.State, v verdict) bool {
	failedBefore := before.Attempt > 0 || before.Waits > 0
	if !failedBefore || v.cause == exhausted || likeness(before.Failure) != likeness(v.failure) {
		return false
	}
	if v.cause == unavailable {
		return b.succeeded.After(before.Time)
	}
	return b.succeeded.After(before.FirstFailed)
}

// addFailure adds a failure to the streak, and opens the breaker if it is long enough.
func (b *breaker) addFailure(s recentFailure, v verdict) {
	if b.cfg.Messages < 0 {
		return
	}
	b.streak = slices.DeleteFunc(b.streak, func(other recentFailure) bool {
		return s.at.Sub(other.at) > b.cfg.Within || other.message == s.message
	})
	alike := 1
	for _, other := range b.streak {
		if other.kind == s.kind {
			alike++
		}
	}
	if alike < b.cfg.Messages {
		b.streak = lastN(append(b.streak, s), maxStreak)
		return
	}
	for _, other := range b.streak {
		if other.counted {
			b.refunds = lastN(append(b.refunds, other.message), maxRefunds)
		}
	}
	b.streak, b.opened, b.last = nil, s.at, v
	b.setOpen(true)
}

func (b *breaker) setOpen(open bool) {
	b.open = open
	b.epoch++
	close(b.changed)
	b.changed = make(chan struct{})
}

// refund reports whether the latest attempt of a message is refunded: it belongs to the
// streak that opened the breaker, and was counted before that.
func (b *breaker) refund(s schemas.State) bool {
	if s.Message == "" || s.Attempt == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.refunds, s.Message)
	if i < 0 {
		return false
	}
	b.refunds = slices.Delete(b.refunds, i, i+1)
	return !b.cfg.ExhaustedAlike(s.Waits, s.WaitsSince, b.now())
}

// state returns whether the breaker is open, whether it is closed for a few messages at
// once, and a channel that is closed when the breaker opens or closes.
func (b *breaker) state() (open, recovering bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.recovering > 0, b.changed
}

// pause returns the wait before the next round of probes.
func (b *breaker) pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return min(max(b.cfg.Pause(b.rounds), b.last.requestedPause), b.cfg.Cap)
}

// probes returns how many messages a round tries one after the other, until one
// succeeds. If the service answers, the number grows with each round, since many bad
// messages may be in front of the good ones.
func (b *breaker) probes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.cfg.Messages
	if b.last.cause == messageFailure {
		most = max(most, min(most<<min(b.rounds, 10), maxProbes))
	}
	return most
}

// roundFailed records that no probe of a round succeeded.
func (b *breaker) roundFailed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rounds++
}

// outage returns the time at which the breaker opened, and the failure of its messages;
// zero while the breaker is closed.
func (b *breaker) outage() (since time.Time, why schemas.Failure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return time.Time{}, schemas.Failure{}
	}
	return b.opened, b.last.failure
}

// lastN returns the last n elements of a list.
func lastN[T any](list []T, most int) []T { return list[max(0, len(list)-most):] }
