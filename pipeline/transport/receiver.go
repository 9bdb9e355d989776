package transport

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// stallTimeout is how long no message arrives until the prefetch grows.
const stallTimeout = 20 * time.Millisecond

// receiver receives the messages of one session, and dispatches them as slots and bytes
// become free.
type receiver struct {
	*subscription
	session *rabbit.Session
	acks    *acks
	tuner   *prefetchTuner

	// earlier is the prefetch of the consumer before this one. RabbitMQ counts the prefetch of
	// each consumer of a channel alone (https://www.rabbitmq.com/docs/consumer-prefetch), and
	// handlers may still have messages of the earlier consumers.
	earlier int

	restRequeued bool // by requeueRest
}

// run returns when the session has ended or the subscription is stopped. In the second case it
// has requeued the messages that no handler has.
func (in *receiver) run(ctx context.Context) {
	for prefetch := in.tuner.prefetch; in.receive(ctx); prefetch = in.tuner.prefetch {
		in.earlier = prefetch
		if in.session.Resume(in.tuner.prefetch) != nil {
			return // the channel is gone
		}
	}
	in.requeueRest(ctx)
}

// mostUnacknowledged returns the number of messages that the broker requeues, at most, if the
// channel is lost.
func (in *receiver) mostUnacknowledged() int { return in.earlier + in.tuner.prefetch }

// receive receives messages until the session ends or the subscription is stopped; it
// returns true after it has cancelled the consumer to continue with another prefetch.
func (in *receiver) receive(ctx context.Context) (resume bool) {
	for in.acquireSlot(ctx) {
		d, ok := in.next()
		if !ok {
			in.releaseSlot()
			return false
		}
		if d == nil {
			in.releaseSlot()
			if !in.tuner.grow() || !in.cancel(ctx) {
				continue
			}
			in.receiveBuffered(ctx)
			return !in.stopped() && ctx.Err() == nil
		}
		size := in.budget.sizeOf(d)
		if in.tuner.observe(size) && in.cancel(ctx) {
			in.releaseSlot()
			in.receiveOrRequeue(ctx, d)
			in.receiveBuffered(ctx)
			return !in.stopped() && ctx.Err() == nil
		}
		if !in.acquireBytes(ctx, size) {
			in.releaseSlot()
			in.requeueNew(ctx, in.acks, d)
			return false
		}
		in.dispatch(ctx, d, size)
	}
	return false
}

// acquireBytes waits for room in the budget; it returns false when the session ends or
// the subscription is stopped.
func (in *receiver) acquireBytes(ctx context.Context, size int) bool {
	if in.budget.tryAcquire(size) {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer callWhenClosed(in.stop, cancel)()
	return in.budget.acquire(ctx, size)
}

// next waits for a message; it returns false when the session ends or the subscription is
// stopped. It returns no message if none arrives for a while, although handlers are idle,
// since the others have as many messages as the broker sends with this prefetch.
func (in *receiver) next() (*amqp.Delivery, bool) {
	var stalled <-chan time.Time
	if in.tuner.mayGrow() && in.acks.unsettledCount() >= in.tuner.prefetch {
		stalled = time.After(stallTimeout)
	}
	select {
	case d, ok := <-in.session.Deliveries:
		return &d, ok
	case <-stalled:
		return nil, true
	case <-in.stop:
		return nil, false
	}
}

// receiveBuffered receives the messages that a cancelled consumer has prefetched.
func (in *receiver) receiveBuffered(ctx context.Context) {
	for d := range in.session.Deliveries {
		in.receiveOrRequeue(ctx, &d)
	}
}

// receiveOrRequeue dispatches a message if there is a slot, and else requeues it, so that it
// takes no memory.
func (in *receiver) receiveOrRequeue(ctx context.Context, d *amqp.Delivery) {
	if size := in.budget.sizeOf(d); in.tryAcquire(size) {
		in.dispatch(ctx, d, size)
	} else {
		in.requeueNew(ctx, in.acks, d)
	}
}

// requeueRest cancels the consumer and requeues the prefetched messages. It does so also after the
// context of the session has ended, as it does once no handler has a message: the channel is
// open, and the broker may have sent others since.
func (in *receiver) requeueRest(ctx context.Context) {
	if in.restRequeued || in.session.Cancel() != nil {
		return
	}
	var rest []*amqp.Delivery
	for d := range in.session.Deliveries {
		rest = append(rest, &d)
	}
	in.requeueNew(ctx, in.acks, rest...)
	in.restRequeued = true
}

// cancel cancels the consumer; it returns false if the session has ended. The session's
// deliveries end with the prefetched messages.
func (in *receiver) cancel(ctx context.Context) bool {
	return ctx.Err() == nil && in.session.Cancel() == nil
}

// dispatch handles one delivery, which has its slot and its bytes. With a single slot, or if
// handlers settle messages, it starts no goroutine, whose switches would cost a third of the rate.
// The message is made here, since a new goroutine would first have to grow its stack for that.
func (in *receiver) dispatch(ctx context.Context, d *amqp.Delivery, size int) {
	in.acks.begin(d.DeliveryTag)
	h := &inFlight{delivery: d, size: size, state: &deliveryState{redelivered: d.Redelivered}, acks: in.acks}
	h.message, h.done = in.message(ctx, d, h.state)
	h.settled = in.opts.onArrival(h.message)
	switch {
	case in.opts.settledByHandlers:
		in.deliver(ctx, h)
	case in.opts.concurrency == 1:
		h.onStop = func() { in.requeueRest(ctx) }
		in.handle(ctx, h)
	default:
		in.handlers.Go(func() { in.handle(ctx, h) })
	}
}
