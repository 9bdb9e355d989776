package transport

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// intake takes the messages of one session, and hands them out as there are places
// and room for them.
type intake struct {
	*subscription
	session *rabbit.Session
	acks    *acks
	tuner   *prefetchTuner
}

// run returns when the session has ended or the subscription is stopped.
func (in *intake) run(ctx context.Context) {
	for in.takeAll(ctx) {
		if in.session.Resume(in.tuner.prefetch) != nil {
			return // the channel is gone
		}
	}
	in.leave(ctx)
}

// takeAll takes messages until the session ends or the subscription is stopped; true
// where it has cancelled the consumer, to go on with another prefetch.
func (in *intake) takeAll(ctx context.Context) (resume bool) {
	for in.takePlace(ctx) {
		d, ok := in.next()
		if !ok {
			in.leavePlace()
			return false
		}
		size := in.budget.sizeOf(d)
		if in.tuner.observe(size) && in.cancel(ctx) {
			in.leavePlace()
			in.takeRest(ctx, d)
			return !in.stopped() && ctx.Err() == nil
		}
		if !in.takeRoom(ctx, size) {
			in.leavePlace()
			in.putBack(in.acks, d)
			return false
		}
		in.dispatch(ctx, d, size)
	}
	return false
}

// takeRoom waits for room in the budget; false when the session ends or the
// subscription is stopped.
func (in *intake) takeRoom(ctx context.Context, size int) bool {
	if in.budget.try(size) {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer closeWith(in.stop, cancel)()
	return in.budget.take(ctx, size)
}

// next waits for a message; false when there are no more, or the subscription is stopped.
func (in *intake) next() (*amqp.Delivery, bool) {
	select {
	case d, ok := <-in.session.Deliveries:
		return &d, ok
	case <-in.stop:
		return nil, false
	}
}

// takeRest takes what a cancelled consumer was handed out, as far as it can be
// handled now; the rest goes back, so that no memory is taken by what waits.
func (in *intake) takeRest(ctx context.Context, d *amqp.Delivery) {
	for {
		if size := in.budget.sizeOf(d); in.tryPlace(size) {
			in.dispatch(ctx, d, size)
		} else {
			in.putBack(in.acks, d)
		}
		next, ok := <-in.session.Deliveries
		if !ok {
			return
		}
		d = &next
	}
}

// leave ends the consumer and puts back what it was handed out and nobody has taken.
func (in *intake) leave(ctx context.Context) {
	if in.cancel(ctx) {
		for d := range in.session.Deliveries {
			in.putBack(in.acks, &d)
		}
	}
}

// cancel stops the broker from handing out more; false where the session has ended.
// What it has handed out comes out of the session's deliveries, which then close.
func (in *intake) cancel(ctx context.Context) bool {
	return ctx.Err() == nil && in.session.Cancel() == nil
}

// dispatch handles one delivery, which has its place and its room. With a single place
// there is nothing to do meanwhile: no goroutine, whose switches would cost a third of
// the rate. The message is made here, since a new goroutine would first have to grow
// its stack for that.
func (in *intake) dispatch(ctx context.Context, d *amqp.Delivery, size int) {
	in.acks.begin(d.DeliveryTag)
	msg, done := in.message(ctx, d)
	h := handled{delivery: d, size: size, message: msg, done: done, acks: in.acks}
	if in.opts.concurrency == 1 {
		h.stopped = func() { in.leave(ctx) }
		in.handle(ctx, h)
		return
	}
	in.handlers.Go(func() { in.handle(ctx, h) })
}
