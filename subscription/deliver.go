package subscription

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// publish sends a message to the queue. Its outcome is known later, except for the first one
// of a session, which may have to bind the queue.
func (s *session) publish(d Delivery, one *sent) {
	state := s.state(d)
	d.Event.Envelope = withoutExpiration(d.Event.Envelope)
	if !s.bound || s.checkpoint().OneByOne {
		one.err = s.outcome(s.delivery.Deliver(s.confirming, d.Event.Envelope, state))
		s.bound = one.err == nil
		return
	}
	message := s.delivery.Message(d.Event.Envelope, state)
	if message.Publishing.Headers[NameHeader] == nil {
		one.err = poison(HeadersTooLong, nil)
		return
	}
	pending, err := s.publisher.Send(s.confirming, message)
	if err != nil {
		one.err = s.outcome(err)
		return
	}
	one.pending = pending
	s.unconfirmed.Add(1)
}

// state returns the state that travels with a delivery to the queue.
func (r *runner) state(d Delivery) schemas.State {
	event, queue := d.Event, r.settings.Target.Queue
	state := schemas.State{
		Fingerprint: event.Fingerprint, Queue: queue, Route: slices.Contains(r.cfg.RouteQueues, queue),
		EventID: event.EventID, Time: event.Time, OriginClaimed: event.OriginClaimed,
	}
	if r.upcast.program != nil {
		changed := event.Envelope
		changed.Headers = changed.PublisherHeaders()
		state.Fingerprint = r.cfg.Fingerprints.Of(changed)
		state.Untapped = state.Fingerprint != event.Fingerprint
	}
	state.Subscription.Name, state.Subscription.Position = d.Subscription, FormatPosition(d.Position)
	state.Subscription.Action, state.Subscription.ByPriority = event.RecordedAction(), event.ByPriority
	return state
}

// withoutExpiration returns the message without its time to live, which is over in history:
// it would expire while the consumer is unavailable.
func withoutExpiration(e schemas.Envelope) schemas.Envelope {
	e.Properties.Expiration = ""
	return e
}

// outcome classifies the error of a message to a queue. A queue that is full or missing is
// no fault of the message: its consumer is unavailable.
func (s *session) outcome(err error) error {
	var unroutable *rabbit.UnroutableError
	var nacked *rabbit.NackedError
	var refused *rabbit.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unroutable):
		return waits(QueueMissing, nil)
	case errors.As(err, &nacked):
		s.update(func(c *Checkpoint) bool { c.OneByOne = true; return true })
		return waits(QueueRefuses, nil)
	case errors.As(err, &refused) && refused.CausedByMessage():
		return poison(MessageRefused, err)
	}
	return waits(BrokerError, err)
}

const (
	lookInterval = 20 * time.Millisecond  // between two looks at a queue with little room
	fullInterval = 200 * time.Millisecond // between two looks at a queue with none
)

// awaitRoom waits until the queue has fewer messages than its limit.
func (s *session) awaitRoom() error {
	limit := s.settings.Target.MaxBacklog
	if limit == 0 {
		limit = DefaultMaxBacklog
	}
	if limit < 0 {
		return nil
	}
	for s.room <= 0 {
		pause := lookInterval - time.Since(s.looked)
		if err := backoff.Sleep(s.sending, pause); err != nil {
			return err
		}
		unconfirmed := int(s.unconfirmed.Load()) // before the queue is looked at, which they may have reached
		state, found, err := s.conn.QueueState(s.sending, s.settings.Target.Queue)
		s.looked = time.Now()
		switch {
		case err != nil:
			return waits(BrokerError, err)
		case !found:
			return waits(QueueMissing, nil)
		}
		s.room = limit - state.Messages - unconfirmed
		if state.Uncertain {
			s.room = min(s.room, 1) // after it the queue has a message, or is known to be silent
		}
		if s.room > 0 {
			break
		}
		if state.Messages >= limit {
			s.wait(reason{cause: QueueBacklog})
			if err := backoff.Sleep(s.sending, fullInterval); err != nil {
				return err
			}
		}
	}
	s.room--
	return nil
}

// deliverByCall calls the URL or the handler until it succeeds. Its error is a poisonError if
// it never will.
func (r *runner) deliverByCall(ctx context.Context, d Delivery) error {
	attempt := retry.Attempt{Fingerprint: d.Event.Fingerprint, Queue: d.Subscription, Number: 1, Replay: d.Event.Replay}
	var first time.Time
	for deferrals := 0; ; {
		err := r.callOnce(ctx, d, attempt)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		now := time.Now()
		if first.IsZero() {
			first = now
		}
		decision := r.decide(retry.Failure{Err: err, Attempt: attempt.Number, First: first, Now: now}, deferrals)
		switch decision.Action {
		case retry.Poison:
			if retry.IsPermanent(err) {
				return poison(TargetError, err)
			}
			return poison(AttemptsExhausted, err)
		case retry.Defer:
			deferrals++
		default:
			attempt.Number++
		}
		r.wait(reason{TargetError, err})
		if err := backoff.Sleep(ctx, decision.Delay); err != nil {
			return err
		}
	}
}

// decide decides about a call that failed. A service that is unavailable costs no attempt.
func (r *runner) decide(failed retry.Failure, deferrals int) retry.Decision {
	policy := r.settings.policy(failed)
	var unavailable *retry.UnavailableError
	if !retry.IsPermanent(failed.Err) && errors.As(failed.Err, &unavailable) {
		return policy.Defer(failed, deferrals, rand.Float64)
	}
	return policy.Count(failed, rand.Float64)
}

func (r *runner) callOnce(ctx context.Context, d Delivery, attempt retry.Attempt) error {
	ctx = retry.ContextWithAttempt(schemas.NewContext(ctx, d.Event.Envelope), attempt)
	_, err := usercode.Recover(func() (struct{}, error) { return struct{}{}, r.call(ctx, d) })
	return err
}

// retryParked delivers the parked messages that an operator has marked for that, and the later messages of a stream
// whose poison message was delivered or dropped. It returns the streams that are held.
func (r *runner) retryParked(ctx context.Context) (held map[string]bool, err error) {
	held = map[string]bool{}
	if r.unnamed {
		return held, nil
	}
	list, err := r.Parked(ctx, r.settings.Name)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if held[p.Stream] {
			continue
		}
		isDelivered := false
		if p.Retry || p.Cause == StreamHeld {
			if isDelivered, err = r.retryOne(ctx, p); err != nil {
				return nil, err
			}
		}
		if !isDelivered && r.parksStreams() && p.Stream != "" {
			held[p.Stream] = true
		}
	}
	return held, nil
}

// retryOne delivers a parked message and removes it from the list, or keeps it with the reason.
func (r *runner) retryOne(ctx context.Context, p Parked) (isDelivered bool, err error) {
	failed := r.deliverParked(ctx, p)
	var why *poisonError
	if failed != nil {
		why = new(poisonError)
		if !errors.As(failed, why) {
			return false, failed
		}
	}
	return failed == nil, r.finishRetry(ctx, p, why)
}

// deliverParked delivers a parked message.
func (r *runner) deliverParked(ctx context.Context, p Parked) error {
	for event, err := range r.cfg.Store.Events(ctx, eventstore.Selection{Query: kql.FieldIs("event.id", p.EventID), Limit: 1}) {
		if storeread.EndsRead(err) {
			return err
		}
		if err != nil {
			return poison(Unreadable, err)
		}
		one := &sent{Item: Item{Event: event, Position: p.Position}, messageID: event.Envelope.Properties.MessageID}
		page := []*sent{one}
		if err := r.findBodies(ctx, page); err != nil {
			return err
		}
		if _, err := r.upcast.page(ctx, page); err != nil || one.err != nil {
			return cmp.Or(err, one.err)
		}
		d := Delivery{r.settings.Name, p.Position, one.Event}
		if d.Event.BodyIn != schemas.BodyHere {
			return poison(BodyMissing, nil)
		}
		if r.settings.Target.Kind != ToQueue {
			return r.deliverByCall(ctx, d)
		}
		s := &session{runner: r, sending: ctx}
		return s.outcome(r.delivery.Deliver(ctx, withoutExpiration(d.Event.Envelope), r.state(d)))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return poison(EventMissing, nil)
}

// finishRetry removes a parked message that was delivered, and keeps another with the reason.
func (r *runner) finishRetry(ctx context.Context, p Parked, failed *poisonError) error {
	_, err := r.eachParked(ctx, p.Subscription, []string{FormatPosition(p.Position)}, func(found Parked, version string) (bool, error) {
		switch {
		case found.EventID != p.EventID:
			return false, nil
		case failed == nil:
			r.update(func(c *Checkpoint) bool { c.Delivered++; return true })
			return r.cfg.Store.DeleteRecord(ctx, parkedKind(p.Subscription), p.id(), version)
		}
		return r.replaceParked(ctx, p, version, failed.cause, r.cfg.text(failed.reason))
	})
	var dropped *Error
	if errors.As(err, &dropped) { // since it was read
		return nil
	}
	return err
}
