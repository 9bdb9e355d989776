package transport

import (
	"context"
	"errors"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/internal/delivery"
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

	prefetch int              // of the consumer
	before   uint64           // the last delivery before deliveries of the consumer
	latest   uint64           // the last delivery
	pending  []*amqp.Delivery // received, and not dispatched yet

	restRequeued bool // by requeueRest
}

// run returns when the session has ended or the subscription is stopped. In the second case it
// has requeued the messages that no handler has.
func (in *receiver) run(ctx context.Context) {
	for in.prefetch = in.tuner.prefetch; in.receive(ctx); in.prefetch = in.tuner.prefetch {
		in.earlier, in.before = in.prefetch, in.latest
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
			if in.tuner.grow() && in.cancel(ctx) {
				in.receiveBuffered(ctx)
				return !in.stopped() && ctx.Err() == nil
			}
			continue
		}
		size := in.budget.sizeOf(d)
		if in.tuner.observe(size) {
			in.pending = slices.Insert(in.pending, 0, d)
			if in.cancel(ctx) {
				in.releaseSlot()
				in.receiveBuffered(ctx)
				return !in.stopped() && ctx.Err() == nil
			}
			in.pending = in.pending[1:]
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
	if len(in.pending) > 0 && !in.stopped() {
		d := in.pending[0]
		in.pending = in.pending[1:]
		return d, true
	}
	var stalled <-chan time.Time
	if in.tuner.mayGrow() && in.acks.unsettledCount() >= in.tuner.prefetch {
		stalled = time.After(stallTimeout)
	}
	select {
	case d, ok := <-in.session.Deliveries:
		in.latest = max(in.latest, d.DeliveryTag)
		return &d, ok
	case <-stalled:
		return nil, true
	case <-in.stop:
		return nil, false
	}
}

// receiveBuffered receives the messages that a cancelled consumer has prefetched.
func (in *receiver) receiveBuffered(ctx context.Context) {
	for _, d := range in.pending {
		in.receiveOrRequeue(ctx, d)
	}
	in.pending = nil
	for d := range in.session.Deliveries {
		in.latest = max(in.latest, d.DeliveryTag)
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
	if in.restRequeued {
		return
	}
	if err := in.cancelOnce(func() bool { in.fill(nil); return true }); err != nil {
		return
	}
	rest := in.pending
	for d := range in.session.Deliveries {
		rest = append(rest, &d)
	}
	in.pending = nil
	in.requeueNew(ctx, in.acks, rest...)
	in.restRequeued = true
}

// cancel cancels the consumer to continue with another prefetch; it returns false, and the prefetch
// stays, if the session has ended or messages may be on their way. The session's deliveries end with the
// prefetched messages.
func (in *receiver) cancel(ctx context.Context) bool {
	if ctx.Err() != nil || in.cancelOnce(func() bool { return in.fill(in.stop) }) != nil {
		in.tuner.undo(in.prefetch)
		return false
	}
	return true
}

var errNotFull = errors.New("messages may be on their way to the consumer")

// cancelOnce cancels the consumer once ready returns true. If the order of messages is kept, no
// acknowledgement is sent until then, for which the broker would send more.
func (in *receiver) cancelOnce(ready func() bool) error {
	if in.opts.hooks.BeforeRequeue == nil {
		return in.session.Cancel()
	}
	in.acks.sending.lock()
	defer in.acks.sending.unlock()
	if !ready() {
		return errNotFull
	}
	return in.session.Cancel()
}

// fill receives messages until the consumer has as many as its prefetch, so that none is on its
// way. A quorum queue requeues a message that is sent to a cancelled consumer, behind others that it
// has requeued before, and nobody has kept its place. fill returns false if no message
// comes for a while, or stop is closed.
func (in *receiver) fill(stop <-chan struct{}) (full bool) {
	for in.acks.unsettledAfter(in.before)+len(in.pending) < in.prefetch {
		timer := time.NewTimer(stallTimeout)
		select {
		case d, ok := <-in.session.Deliveries:
			timer.Stop()
			if !ok {
				return false
			}
			in.latest = max(in.latest, d.DeliveryTag)
			in.pending = append(in.pending, &d)
		case <-stop:
			timer.Stop()
			return false
		case <-timer.C:
			return false
		}
	}
	return true
}

// dispatch handles one delivery, which has its slot and its bytes. With a single slot, or if
// handlers settle messages, it starts no goroutine, whose switches would cost a third of the rate.
// The message is made here, since a new goroutine would first have to grow its stack for that.
func (in *receiver) dispatch(ctx context.Context, d *amqp.Delivery, size int) {
	in.acks.begin(d.DeliveryTag)
	h := &inFlight{delivery: d, size: size, state: &delivery.State{Redelivered: d.Redelivered}, acks: in.acks}
	h.message, h.done = in.message(ctx, d, h.state)
	h.settled = in.opts.hooks.OnArrival(h.message)
	switch {
	case in.opts.hooks.SettledByHandlers:
		in.deliver(ctx, h)
	case in.opts.concurrency == 1:
		h.onStop = func() { in.requeueRest(ctx) }
		in.handle(ctx, h)
	default:
		in.handlers.Go(func() { in.handle(ctx, h) })
	}
}
