package transport

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// receiver takes the messages of one session, and hands them out as there are places
// and room for them.
type receiver struct {
	*subscription
	session *rabbit.Session
	acks    *acks
	tuner   *prefetchTuner
}

// run returns when the session has ended or the subscription is stopped.
func (in *receiver) run(ctx context.Context) {
	for in.receive(ctx) {
		if in.session.Resume(in.tuner.prefetch) != nil {
			return // the channel is gone
		}
	}
	in.requeueRest(ctx)
}

// receive takes messages until the session ends or the subscription is stopped; true
// where it has cancelled the consumer, to go on with another prefetch.
func (in *receiver) receive(ctx context.Context) (resume bool) {
	for in.acquireSlot(ctx) {
		d, ok := in.next()
		if !ok {
			in.releaseSlot()
			return false
		}
		size := in.budget.sizeOf(d)
		if in.tuner.observe(size) && in.cancel(ctx) {
			in.releaseSlot()
			in.receiveBuffered(ctx, d)
			return !in.stopped() && ctx.Err() == nil
		}
		if !in.acquireBytes(ctx, size) {
			in.releaseSlot()
			in.requeue(in.acks, d)
			return false
		}
		in.dispatch(ctx, d, size)
	}
	return false
}

// acquireBytes waits for room in the budget; false when the session ends or the
// subscription is stopped.
func (in *receiver) acquireBytes(ctx context.Context, size int) bool {
	if in.budget.tryAcquire(size) {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer closeWith(in.stop, cancel)()
	return in.budget.acquire(ctx, size)
}

// next waits for a message; false when there are no more, or the subscription is stopped.
func (in *receiver) next() (*amqp.Delivery, bool) {
	select {
	case d, ok := <-in.session.Deliveries:
		return &d, ok
	case <-in.stop:
		return nil, false
	}
}

// receiveBuffered takes what a cancelled consumer was handed out, as far as it can be
// inFlight now; the rest goes back, so that no memory is taken by what waits.
func (in *receiver) receiveBuffered(ctx context.Context, d *amqp.Delivery) {
	for {
		if size := in.budget.sizeOf(d); in.tryAcquire(size) {
			in.dispatch(ctx, d, size)
		} else {
			in.requeue(in.acks, d)
		}
		next, ok := <-in.session.Deliveries
		if !ok {
			return
		}
		d = &next
	}
}

// requeueRest ends the consumer and puts back what it was handed out and nobody has taken.
func (in *receiver) requeueRest(ctx context.Context) {
	if in.cancel(ctx) {
		for d := range in.session.Deliveries {
			in.requeue(in.acks, &d)
		}
	}
}

// cancel stops the broker from handing out more; false where the session has ended.
// What it has handed out comes out of the session's deliveries, which then close.
func (in *receiver) cancel(ctx context.Context) bool {
	return ctx.Err() == nil && in.session.Cancel() == nil
}

// dispatch handles one delivery, which has its place and its room. With a single place
// there is nothing to do meanwhile: no goroutine, whose switches would cost a third of
// the rate. The message is made here, since a new goroutine would first have to grow
// its stack for that.
func (in *receiver) dispatch(ctx context.Context, d *amqp.Delivery, size int) {
	in.acks.begin(d.DeliveryTag)
	msg, done := in.message(ctx, d)
	h := inFlight{delivery: d, size: size, message: msg, done: done, acks: in.acks}
	if in.opts.concurrency == 1 {
		h.stopped = func() { in.requeueRest(ctx) }
		in.handle(ctx, h)
		return
	}
	in.handlers.Go(func() { in.handle(ctx, h) })
}
