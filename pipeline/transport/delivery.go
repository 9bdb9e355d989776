package transport

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// inFlight is a delivery that a handler has, with its Watermill message.
type inFlight struct {
	delivery *amqp.Delivery
	size     int // in the budget
	message  *message.Message
	done     context.CancelFunc // ends the message's context
	state    *deliveryState     // in the message's context
	settled  func()             // of the option OnArrival
	acks     *acks
	onStop   func() // called if the subscription stops before the ack; may be nil
}

// handle passes one delivery to the handler and acknowledges it. ctx is the session's.
func (s *subscription) handle(ctx context.Context, h inFlight) {
	defer s.releaseSlot()
	defer s.budget.release(h.size)
	defer h.done()
	defer h.settled()
	select {
	case s.out <- h.message:
	case <-s.stop:
		s.requeue(h.acks, h.delivery)
		return
	case <-ctx.Done():
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
		s.nackCounter.acked(h.delivery)
		h.acks.ack(h.delivery.DeliveryTag, h.state.takeSettled())
	case <-h.message.Nacked():
		h.done()
		h.state.end()
		s.requeueAfterPause(ctx, h)
	case <-s.expired.Done():
	}
}

// message returns the Watermill message of a delivery. A delivery that the configured
// marshaler refuses would be requeued for ever: Marshaler converts it instead.
func (s *subscription) message(ctx context.Context, d *amqp.Delivery) (*message.Message, *deliveryState, context.CancelFunc) {
	msg, err := s.cfg.Marshaler.Unmarshal(*d)
	if err != nil {
		s.warnOnce.Do(func() {
			s.log.Error("the configured marshaler refuses messages; transport.Marshaler converts them", err,
				watermill.LogFields{"topic": s.topic})
		})
		msg, _ = Marshaler{}.Unmarshal(*d)
	}
	messageCtx, state := withDelivery(schemas.NewContext(ctx, schemas.FromDelivery(*d)), d)
	messageCtx, cancel := context.WithCancel(messageCtx)
	msg.SetContext(messageCtx)
	return msg, state, cancel
}

// requeueAfterPause requeues a nacked message after a pause, or at once when the session
// ends. A queue without requeue dead-letters it without a pause.
func (s *subscription) requeueAfterPause(ctx context.Context, h inFlight) {
	requeue := !s.cfg.Consume.NoRequeueOnNack
	if requeue {
		s.pause(ctx, s.opts.nackBackoff.Pause(s.nackCounter.nacked(h.delivery)))
	}
	s.nack(h.acks, h.delivery, requeue)
}

// requeue requeues a message that no handler has.
func (s *subscription) requeue(acks *acks, d *amqp.Delivery) {
	s.opts.onRequeue(1)
	s.nack(acks, d, true)
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
