// Package breaker pauses a route while the service that its handler needs is unavailable.
// Breaker decides by the results of attempts, and Subscriber delivers the messages.
package breaker

import (
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Breaker is the circuit breaker of a route. The handler of the route records the result
// of each attempt, and learns whether one that failed counts; Subscriber delivers as many
// messages as the breaker allows.
//
//	          Messages different messages fail in a row, and none has just succeeded
//	closed ───────────────────────────────────────────► open ◄┐
//	  ▲                                                  │    │ fail in a row
//	  │ Messages succeed                 a probe succeeds│    │
//	  └────────────── closed, a few at once ◄────────────┘────┘
//
// An attempt that began before the breaker opened does not close it. An attempt that began
// before it opened or closed, and fails after that, does not open it and is returned.
type Breaker struct {
	cfg retry.Breaker
	now func() time.Time

	mu         sync.Mutex    // guards the fields below
	epoch      int           // how often the breaker opened or closed
	open       bool          // since the time in opened
	changed    chan struct{} // closed when open changes
	opened     time.Time
	last       Failure         // on the attempt that opened the breaker, or the newest of its probes
	streak     []recentFailure // failures since the latest success, oldest first
	succeeded  time.Time       // when an attempt succeeded last
	recovering int             // successes until the route handles Concurrency messages again
	rounds     int             // rounds of probes that failed since then
	refunds    []string        // messages whose attempt is refunded, oldest first
}

// recentFailure is a failure that may be caused by an outage.
type recentFailure struct {
	message string // instance id
	key     string
	kind    string
	at      time.Time
	counted bool // as an attempt
}

// Failure is the error of an attempt.
type Failure struct {
	schemas.Failure
	Cause          Cause
	Key            string        // of the messages that a part of the service serves; "": none. Messages of one key count once.
	RequestedPause time.Duration // the pause that the service asked for; 0: none
}

// Effect is the effect of a failure on the attempts of its message.
type Effect int

const (
	AttemptCounts   Effect = iota // the policy decides
	AttemptReturned               // the message waits and loses no attempt
	WaitsReset                    // the policy decides, without the earlier waits, since other messages succeed
)

const (
	maxStreak  = 1000 // failures
	maxRefunds = 1000 // messages
	maxProbes  = 100  // of one round

	// successGrace is the time after a success in which failures that are alike do not open
	// the breaker, up to maxStreak in a row.
	successGrace = 10 * time.Second
)

// New returns a closed breaker.
func New(cfg retry.Breaker, now func() time.Time) *Breaker {
	return &Breaker{cfg: cfg.WithDefaults(), now: now, changed: make(chan struct{})}
}

// Has reports whether the breaker has these settings.
func (b *Breaker) Has(cfg retry.Breaker) bool { return b.cfg == cfg.WithDefaults() }

// Begin is called before an attempt; its result is passed on with the result of the attempt.
func (b *Breaker) Begin() (epoch int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.epoch
}

// RecordSuccess records that an attempt succeeded.
func (b *Breaker) RecordSuccess(epoch int) {
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

// RecordFailure records that an attempt failed, and decides whether it counts. before is
// the state of the message before the attempt, with an instance id.
func (b *Breaker) RecordFailure(epoch int, before schemas.State, f Failure) Effect {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	effect := b.classify(epoch, before, f, now)
	if b.waitsExhausted(before, f.Cause, now) {
		return AttemptCounts
	}
	return effect
}

// classify decides as RecordFailure does, without the limit of waits.
func (b *Breaker) classify(epoch int, before schemas.State, f Failure, now time.Time) Effect {
	switch {
	case f.Cause == DecidedByHandler:
		return AttemptCounts
	case epoch < b.epoch, f.Cause == ReturnedByHandler:
		return AttemptReturned
	case b.open:
		b.last = f
		return AttemptReturned
	case b.isMessageFault(before, f):
		return WaitsReset
	}
	counts := f.Cause == MessageFailure || f.Cause == TimedOut
	suspected := b.addFailure(recentFailure{before.Message, f.Key, outageKind(f.Failure, f.Cause), now, counts}, f)
	if suspected || !counts {
		return AttemptReturned
	}
	return AttemptCounts
}

// waitsExhausted reports whether the message has waited as often as it may.
func (b *Breaker) waitsExhausted(before schemas.State, cause Cause, now time.Time) bool {
	if cause == MessageFailure {
		return b.cfg.ExhaustedAlike(before.Waits, before.WaitsSince, now)
	}
	return b.cfg.Exhausted(before.Waits, before.WaitsSince, now)
}

// isMessageFault reports whether the message fails as before although other messages
// succeeded in between. A failure that does not count becomes one only if a message
// succeeded since this one failed last, and after a wait with any error: a message that
// breaks its service fails in many ways. A process without a free file for a connection
// is never the fault of the message.
func (b *Breaker) isMessageFault(before schemas.State, f Failure) bool {
	alike := failureGroup(before.Failure) == failureGroup(f.Failure)
	switch {
	case f.Cause == Exhausted, before.Attempt == 0 && before.Waits == 0:
		return false
	case f.Cause == Unavailable:
		return (alike || before.Waits > 0 && !before.Time.IsZero()) && b.succeeded.After(before.Time)
	}
	return alike && b.succeeded.After(before.FirstFailed)
}

// addFailure adds a failure to the streak, and reports whether the streak is long enough
// to suspect an outage. The breaker opens then, unless the service has just handled other
// messages and still answers: the next success shows that the messages were bad, and
// until then their attempts do not count.
func (b *Breaker) addFailure(s recentFailure, f Failure) (suspected bool) {
	if b.cfg.Messages < 0 {
		return false
	}
	b.streak = slices.DeleteFunc(b.streak, func(other recentFailure) bool {
		return s.at.Sub(other.at) > b.cfg.Within || other.message == s.message || s.key != "" && other.key == s.key
	})
	alike := 1
	for _, other := range b.streak {
		if other.kind == s.kind {
			alike++
		}
	}
	suspected = alike >= b.cfg.Messages
	mayBeAlone := f.Cause == MessageFailure || f.Key != ""
	if !suspected || mayBeAlone && alike < maxStreak && s.at.Sub(b.succeeded) < successGrace {
		s.counted = s.counted && !suspected
		b.streak = lastN(append(b.streak, s), maxStreak)
		return suspected
	}
	for _, other := range b.streak {
		if other.counted {
			b.refunds = lastN(append(b.refunds, other.message), maxRefunds)
		}
	}
	b.streak, b.opened, b.last = nil, s.at, f
	b.setOpen(true)
	return true
}

func (b *Breaker) setOpen(open bool) {
	b.open = open
	b.epoch++
	close(b.changed)
	b.changed = make(chan struct{})
}

// Refund reports whether the latest attempt of a message is refunded: it belongs to the
// streak that opened the breaker, and was counted before that.
func (b *Breaker) Refund(s schemas.State) bool {
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
func (b *Breaker) state() (open, recovering bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.recovering > 0, b.changed
}

// Recovering reports whether the breaker is open, or closed for a few messages at once.
func (b *Breaker) Recovering() bool {
	open, recovering, _ := b.state()
	return open || recovering
}

// Pause returns the wait before the next round of probes.
func (b *Breaker) Pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return min(max(b.cfg.Pause(b.rounds), b.last.RequestedPause), b.cfg.Cap)
}

// Probes returns how many messages a round tries one after the other, until one
// succeeds. If the service answers, the number grows with each round, since many bad
// messages may be in front of the good ones.
func (b *Breaker) Probes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.cfg.Messages
	if b.last.Cause == MessageFailure {
		most = max(most, min(most<<min(b.rounds, 10), maxProbes))
	}
	return most
}

// RoundFailed records that no probe of a round succeeded.
func (b *Breaker) RoundFailed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rounds++
}

// Outage returns the time at which the breaker opened, and the failure of its messages;
// zero while the breaker is closed.
func (b *Breaker) Outage() (since time.Time, why schemas.Failure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return time.Time{}, schemas.Failure{}
	}
	return b.opened, b.last.Failure
}

// lastN returns the last n elements of a list.
func lastN[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }
