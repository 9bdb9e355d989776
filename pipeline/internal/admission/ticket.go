package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/pipeline/internal/admission/fairness"
	"github.com/watershipmq/watership/pipeline/internal/admission/ordering"
	"github.com/watershipmq/watership/pipeline/internal/delivery"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Ticket admits one delivery of a message. Its state is the one with which the message goes on, so
// the ticket changes it: an attempt is refunded, or the message becomes a suspect.
type Ticket struct {
	wire.VerifiedState

	of    *Admission
	share *fairness.Ticket // nil: no fairness
	turn  *ordering.Ticket // nil: no ordering
	epoch int              // of the route's breaker, on the arrival and then on the attempt

	// These are called in Done: the first one records what becomes of the message if it is
	// acknowledged. Nil: nothing.
	outcome, settled func()
}

type ticketKey struct{}

// Arrive is called with each message in the order of the queue; the returned function is called
// once the message is acknowledged or requeued. Watermill's router is between Arrive and Ticket, so
// the message brings its ticket in its context. One that cannot be verified has none yet.
func (a *Admission) Arrive(msg *message.Message) (settled func()) {
	ctx, leave := msg.Context(), func() {}
	if a.gate != nil || a.line != nil {
		t, err := usercode.Recover(func() (*Ticket, error) { return a.verify(ctx) })
		if err == nil {
			leave = t.arrive(ctx)
			msg.SetContext(context.WithValue(ctx, ticketKey{}, t))
		}
	}
	return func() {
		leave()
		a.subscriber.Settled(msg)
	}
}

func (a *Admission) verify(ctx context.Context) (*Ticket, error) {
	verified, err := a.cfg.Verify(ctx)
	return &Ticket{VerifiedState: verified, of: a}, err
}

// arrive takes the place of the message among the messages of its key.
func (t *Ticket) arrive(ctx context.Context) (leave func()) {
	a := t.of
	t.epoch = a.breaker.Begin()
	if a.line != nil {
		t.turn = a.line.Arrive(ordering.Arrival{
			Key: a.keyOf(t.Envelope, a.cfg.Ordering.Key), Fingerprint: t.State.Fingerprint, ID: t.Envelope.Properties.MessageID, Sequence: a.sequenceOf(t.Envelope), Position: t.State.Position,
		})
		return t.turn.Leave
	}
	t.share = a.gate.Arrive(fairness.Delivery{
		Key: a.keyOf(t.Envelope, a.cfg.Fairness.Key), ID: t.State.Fingerprint, Position: t.State.Position, Redelivered: delivery.Redelivered(ctx),
	})
	t.State.Receiver = t.share.Key()
	if place, ordered := t.share.Place(); ordered {
		a.places.Arrived(place)
	}
	return t.share.Leave
}

// Ticket returns the ticket of a message that a handler has, without the latest attempt of its
// state if the breaker of the route or of its key refunds that.
func (a *Admission) Ticket(ctx context.Context) (*Ticket, error) {
	var t *Ticket
	if arrived, found := ctx.Value(ticketKey{}).(*Ticket); found {
		t = new(*arrived) // middleware may handle a message several times
	} else {
		var err error
		if t, err = a.verify(ctx); err != nil {
			return nil, err
		}
	}
	if s := &t.State; a.breaker.Refund(*s) || t.share != nil && t.share.Refund(*s) {
		s.Attempt--
		s.Attempts = s.Attempts[:max(0, len(s.Attempts)-1)]
		*s = s.Waited(a.cfg.Now())
	}
	return t, nil
}

// Next is what follows for a message.
type Next struct {
	Step Step

	Why     error         // of the attempt; nil: it succeeded
	Started time.Time     // when the attempt began; zero without one
	Took    time.Duration // the attempt; 0 without one

	Deliveries int            // of a Suspected message, without an outcome
	Decision   retry.Decision // about a Suspected message

	Unavailable *schemas.Failure // for the event of a message that waits for an unavailable key for the first time; nil: no event
}

// Step is the kind of what follows for a message.
type Step int

const (
	Attempted Step = iota // an attempt has ended
	Requeue               // the route stops, or is paused. Many messages may be requeued then, and none is worth an error in the log.
	Wait                  // the message waits for its key in a delay queue, for the Delay of its state
	Suspected             // it was delivered too often without an outcome, or its deliveries are counted: Decision
)

// Run calls attempt once the message may start, and again after each failure since an earlier
// message of its key was not handled, as soon as that is. An error means that the message must be
// delivered once more.
func (t *Ticket) Run(ctx context.Context, attempt func() error) (Next, error) {
	if v, err := t.awaitKey(ctx); v.Step != Attempted || err != nil {
		return v, err
	}
	a := t.of
	started := a.cfg.Now()
	t.epoch = a.breaker.Begin()
	if why := t.stillRunning(ctx); why != nil {
		return Next{Why: why}, nil
	}
	if v, err := t.awaitSuspects(ctx); v.Step != Attempted || err != nil {
		return v, err
	}
	fingerprint, delivered := t.State.Fingerprint, t.State.Message // a later delivery has the id of this one, not the id of Stands
	outcome, why := t.turn.Repeat(ctx, ordering.Attempts{
		Attempt: func() error {
			defer a.cfg.Running.begin(ctx, fingerprint, delivered, a.cfg.Now())()
			return attempt()
		},
		IsEarly: func(why error) bool { return a.cfg.Ordering.IsEarly(why, t.Envelope) },
		// A message that is handled alone keeps the others out, also the one that it waits for.
		First: &t.State.FirstFailed, Recovering: func() bool { return t.State.Suspect || a.breaker.Recovering() },
		Paused: func() (bool, <-chan struct{}) {
			paused, changed := a.cfg.Paused.State()
			return paused || t.opened(), changed
		},
		Stands: func(why error, until time.Time) {
			t.identify()
			a.cfg.Ordering.Record(ctx, t.VerifiedState, t.earlierError(why), until)
		},
	})
	switch outcome {
	case ordering.Stopped:
		return Next{Step: Requeue}, nil
	case ordering.Later:
		why = retry.After(ordering.Pause, t.earlierError(why))
	}
	return Next{Why: why, Started: started, Took: a.cfg.Now().Sub(started)}, nil
}

// identify gives the message an instance id, if it has none.
func (t *Ticket) identify() {
	if t.State.Message == "" {
		t.State.Message = t.of.cfg.NewID()
	}
}

// earlierError names the earlier message that failed with an error.
func (t *Ticket) earlierError(why error) error {
	name := "an earlier message"
	if id := t.turn.Earlier(); id != "" {
		name = fmt.Sprintf("message %q", id)
	}
	return fmt.Errorf("%w %s of key %q: %w", ErrEarlier, name, t.turn.Key(), why)
}

// opened reports whether the breaker of the route has opened since the epoch of the ticket.
func (t *Ticket) opened() bool {
	since, _ := t.of.breaker.Outage()
	return !since.IsZero() && t.epoch != t.of.breaker.Begin()
}

// Succeeded records that the attempt of the message succeeded.
func (t *Ticket) Succeeded() {
	if t.share != nil {
		t.share.Succeeded()
	}
	t.of.breaker.RecordSuccess(t.epoch)
	t.outcome = t.turn.Handled
}

// Failed records that the attempt of the message failed, and reports whether it counts. Otherwise
// the message waits and loses no attempt. The breaker of its key decides, and the route's breaker if
// the failure may be a sign of an outage of all keys.
func (t *Ticket) Failed(f breaker.Failure) (counts bool) {
	t.identify()
	t.State.Deliveries, t.State.Suspect = 0, false
	effect, news := breaker.AttemptCounts, true
	if t.share != nil && t.share.Key() != "" {
		effect, news = t.share.Failed(t.State, f)
		f.Key = t.share.Key()
	}
	if news {
		if all := t.of.breaker.RecordFailure(t.epoch, t.State, f); f.Key == "" || all == breaker.AttemptReturned {
			effect = all
		}
	}
	if effect == breaker.WaitsReset {
		t.State.Waits, t.State.WaitsSince = 0, time.Time{}
	}
	return effect != breaker.AttemptReturned
}

// Leaves keeps the place of the message in the order of its key, for this process and the next one,
// before it is published as decided.
func (t *Ticket) Leaves(ctx context.Context, d retry.Decision) error {
	t.State.Position = t.turn.Position()
	if d.Action == retry.Poison {
		t.outcome = t.turn.GivenUp
		return nil
	}
	t.outcome = func() { t.turn.Waits(d.Delay) }
	if t.share == nil || !t.of.cfg.Fairness.Ordered {
		return nil
	}
	t.State.Position = t.share.Position()
	return t.away(ctx, d.Delay)
}

func (t *Ticket) away(ctx context.Context, delay time.Duration) error {
	t.share.Away(delay, t.of.places.Reserve)
	return t.of.places.Write(ctx)
}

// Done is called last, before the message is acknowledged, or requeued. A requeued message keeps its
// place in the order of its key.
func (t *Ticket) Done(ctx context.Context, acknowledged bool) {
	if t.settled != nil {
		defer t.settled()
	}
	if !acknowledged || ctx.Err() != nil {
		t.of.guard.Survived(t.State.Fingerprint)
	}
	if !acknowledged {
		return
	}
	if t.outcome != nil {
		t.outcome()
	}
	if ctx.Err() == nil && t.share != nil && t.share.Settle() {
		t.of.places.Remove(ctx, t.share.Position())
	}
}

// afterSettled calls f once the message is acknowledged or requeued.
func (t *Ticket) afterSettled(ctx context.Context, f func()) {
	if !delivery.AfterSettled(ctx, f) {
		t.settled = f
	}
}
