package subscription

import (
	"context"
	"errors"
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
	state := s.state(d, s.settings.Target.Queue)
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

// unavailablePauses are the pauses between calls of a service that is unavailable.
func unavailablePauses() backoff.Backoff { return backoff.Backoff{Min: time.Second, Max: time.Minute} }

// deliverByCall calls the URL or the handler until it succeeds. Its error is a poisonError if
// it never will.
func (r *runner) deliverByCall(ctx context.Context, d Delivery) error {
	attempt := retry.Attempt{Fingerprint: d.Event.Fingerprint, Queue: d.Subscription, Number: 1, Replay: d.Event.Replay}
	for unavailables := 0; ; {
		err := r.callOnce(ctx, d, attempt)
		var unavailable *retry.UnavailableError
		var after *retry.AfterError
		atLeast := time.Duration(0)
		if errors.As(err, &after) {
			atLeast = after.Delay
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case retry.IsPermanent(err):
			return poison(TargetError, err)
		case errors.As(err, &unavailable):
			unavailables++
			atLeast = max(atLeast, unavailablePauses().Pause(unavailables))
		default:
			if limit := r.settings.Retry.Attempts; limit > 0 && attempt.Number >= limit {
				return poison(AttemptsExhausted, err)
			}
			atLeast = max(atLeast, r.settings.Retry.delay(attempt.Number))
			attempt.Number++
		}
		r.wait(reason{TargetError, err})
		if err := backoff.Sleep(ctx, atLeast); err != nil {
			return err
		}
	}
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
		page := []Item{{Event: event, Position: p.Position}}
		if err := r.findBodies(ctx, page); err != nil {
			return err
		}
		d := Delivery{r.settings.Name, p.Position, page[0].Event}
		if d.Event.BodyIn != schemas.BodyHere {
			return poison(BodyMissing, nil)
		}
		if r.settings.Target.Kind != ToQueue {
			return r.deliverByCall(ctx, d)
		}
		s := &session{runner: r, sending: ctx}
		return s.outcome(r.delivery.Deliver(ctx, withoutExpiration(d.Event.Envelope), r.state(d, r.settings.Target.Queue)))
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
		return r.replaceParked(ctx, p, version, failed.reason)
	})
	var dropped *Error
	if errors.As(err, &dropped) { // since it was read
		return nil
	}
	return err
}
