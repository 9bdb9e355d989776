package transport

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/pipeline/internal/delivery"
	"github.com/watershipmq/watership/schemas"
)

// inFlight is a delivery that a handler has, with its Watermill message.
type inFlight struct {
	delivery *amqp.Delivery
	size     int // in the budget
	message  *message.Message
	done     context.CancelFunc // ends the message's context
	state    *delivery.State    // in the message's context
	settled  func()             // of the option OnArrival
	acks     *acks
	onStop   func() // called if the subscription stops before the ack; may be nil
}

// deliver passes one delivery to the handler; it returns false if the subscription stops or the
// session ends before. ctx is the session's.
func (s *subscription) deliver(ctx context.Context, h *inFlight) bool {
	h.state.Settle = func(acked bool) { s.settle(ctx, h, acked) }
	select {
	case s.out <- h.message:
		return true
	case <-s.stop:
		s.requeue(ctx, h.acks, h.delivery)
	case <-ctx.Done():
	}
	s.end(h)
	return false
}

// settle acknowledges a delivery, or requeues it after a pause.
func (s *subscription) settle(ctx context.Context, h *inFlight, acked bool) {
	after, first := h.state.Take()
	switch {
	case !first:
	case acked:
		s.nackCounter.acked(h.delivery)
		h.acks.ack(h.delivery.DeliveryTag, after)
		s.end(h)
	default:
		h.done()
		if after != nil {
			after()
		}
		if s.stopped() { // without a pause
			s.requeueAfterPause(ctx, h)
			return
		}
		s.handlers.Go(func() { s.requeueAfterPause(ctx, h) })
	}
}

func (s *subscription) end(h *inFlight) {
	h.settled()
	h.done()
	s.budget.release(h.size)
	s.releaseSlot()
}

// handle passes one delivery to the handler, and waits for the ack or nack of its message.
func (s *subscription) handle(ctx context.Context, h *inFlight) {
	if !s.deliver(ctx, h) {
		return
	}
	if h.onStop != nil {
		select {
		case <-h.message.Acked():
		case <-h.message.Nacked():
		case <-s.stop:
			h.onStop()
		}
	}
	select {
	case <-h.message.Acked():
		s.settle(ctx, h, true)
	case <-h.message.Nacked():
		s.settle(ctx, h, false)
	case <-s.expired.Done():
		s.end(h)
	}
}

// message returns the Watermill message of a delivery. A delivery that the configured
// marshaler refuses would be requeued for ever: Marshaler converts it instead.
func (s *subscription) message(ctx context.Context, d *amqp.Delivery, state *delivery.State) (*message.Message, context.CancelFunc) {
	msg, err := s.cfg.Marshaler.Unmarshal(*d)
	if err != nil {
		s.warnOnce.Do(func() {
			s.log.Error("the configured marshaler refuses messages; transport.Marshaler converts them", err,
				watermill.LogFields{"topic": s.topic})
		})
		msg, _ = Marshaler{}.Unmarshal(*d)
	}
	messageCtx := delivery.NewContext(schemas.NewContext(ctx, schemas.FromDelivery(*d)), state)
	messageCtx, cancel := context.WithCancel(messageCtx)
	msg.SetContext(messageCtx)
	return msg, cancel
}

// requeueAfterPause requeues a nacked message after a pause, or at once when the session
// ends. A queue without requeue dead-letters it without a pause.
func (s *subscription) requeueAfterPause(ctx context.Context, h *inFlight) {
	defer s.end(h)
	requeue := !s.cfg.Consume.NoRequeueOnNack
	if requeue {
		s.pause(ctx, s.opts.nackBackoff.Pause(s.nackCounter.nacked(h.delivery)))
	}
	if requeue {
		s.prepareRequeue(ctx)
	}
	s.nack(h.acks, h.delivery, requeue)
}

// requeueNew requeues messages that have not arrived.
func (s *subscription) requeueNew(ctx context.Context, acks *acks, messages ...*amqp.Delivery) {
	if s.opts.hooks.BeforeRequeue != nil {
		for _, d := range messages {
			msg, done := s.message(ctx, d, &delivery.State{Redelivered: d.Redelivered})
			defer done()
			defer s.opts.hooks.OnArrival(msg)()
		}
	}
	for _, d := range messages {
		s.requeue(ctx, acks, d)
	}
}

// requeue requeues a message that no handler has.
func (s *subscription) requeue(ctx context.Context, acks *acks, d *amqp.Delivery) {
	s.opts.hooks.OnRequeue(1)
	s.prepareRequeue(ctx)
	s.nack(acks, d, true)
}

// prepareTimeout bounds the call of the function of BeforeRequeue.
const prepareTimeout = 5 * time.Second

// prepareRequeue calls the function of BeforeRequeue, unless the session is lost, so that RabbitMQ
// has requeued its messages. ctx is the session's, and may have ended with the subscription.
func (s *subscription) prepareRequeue(ctx context.Context) {
	if lost := context.Cause(ctx); s.opts.hooks.BeforeRequeue == nil || lost != nil && !errors.Is(lost, context.Canceled) {
		return
	}
	ctx, cancel := context.WithTimeout(s.values, prepareTimeout)
	defer cancel()
	s.opts.hooks.BeforeRequeue(ctx)
}

func (s *subscription) nack(acks *acks, d *amqp.Delivery, requeue bool) {
	if err := acks.nack(d.DeliveryTag, requeue); err != nil { // the session has ended, which was logged when it did
		s.log.Debug("nack dropped, RabbitMQ delivers the message again", watermill.LogFields{"topic": s.topic, "reason": err.Error()})
	}
}

func (s *subscription) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stop:
	case <-ctx.Done():
	}
}
