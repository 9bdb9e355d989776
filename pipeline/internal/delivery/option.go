package delivery

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// Option is a transport.Option for a Subscriber.
type Option func(*Hooks)

// TransportOption makes it one.
func (Option) TransportOption() {}

// Hooks are what options set.
type Hooks struct {
	OnRequeue     func(messages int)
	OnArrival     func(*message.Message) (settled func())
	BeforeRequeue func(context.Context) // nil: messages may be requeued that have not arrived
	NewLock       func() Lock
	OnState       func(error)

	SettledByHandlers bool
	Connection        *rabbit.Connection // of a Subscriber that gets none; nil: it gets one
}

// NoHooks returns the hooks of a Subscriber without options.
func NoHooks() Hooks {
	return Hooks{
		OnRequeue: func(int) {},
		OnArrival: func(*message.Message) func() { return func() {} },
		NewLock:   func() Lock { return noLock{} },
		OnState:   func(error) {},
	}
}

// OnRequeue sets a function that a Subscriber calls, from any goroutine, with the number of
// messages that it requeues although no handler has had them: prefetched ones at the end
// of a subscription or of a larger prefetch. If a channel is lost, it is called before the
// messages are delivered once more, with the most that the broker may have delivered on that channel without
// an acknowledgement, including messages of handlers. The broker marks them as redelivered.
func OnRequeue(f func(messages int)) Option {
	return func(h *Hooks) { h.OnRequeue = f }
}

// OnArrival sets a function that a Subscriber calls with each message before it delivers it,
// in the order of the queue. It may set the message's context. The returned function is
// called when the message is acked or requeued.
func OnArrival(f func(msg *message.Message) (settled func())) Option {
	return func(h *Hooks) { h.OnArrival = f }
}

// BeforeRequeue sets a function that a Subscriber calls, from any goroutine, before it requeues a
// message, to keep the order of messages: a quorum queue puts a message that is requeued behind
// others that were requeued before, or behind all if it has no delivery limit. Each message has
// arrived by then, as OnArrival says.
func BeforeRequeue(f func(ctx context.Context)) Option {
	return func(h *Hooks) { h.BeforeRequeue = f }
}

// Lock decides when a subscription may consume its queue.
type Lock interface {
	// Acquire returns once the subscription may consume on a connection. A lock that is an
	// exclusive queue of this connection is lost with it, as all deliveries are. If lost is
	// closed before, the subscription gives all its messages back and calls Acquire again, as it
	// does after an error, which is logged.
	Acquire(ctx context.Context, on *amqp.Connection) (lost <-chan struct{}, err error)

	// Release is called once the channel of the subscription is closed, and the broker
	// has all its messages back. It may be called more often than Acquire, and not after each:
	// if the subscription cannot consume after Acquire, it calls Acquire again.
	Release()
}

type noLock struct{}

func (noLock) Acquire(context.Context, *amqp.Connection) (<-chan struct{}, error) { return nil, nil }
func (noLock) Release()                                                           {}

// Locked sets a function that returns the lock of each new subscription, such as one that
// lets only one process consume a queue.
func Locked(newLock func() Lock) Option {
	return func(h *Hooks) { h.NewLock = newLock }
}

// OnState sets a function that a Subscriber calls with nil when one of its subscriptions consumes
// its queue, or has ended, and with the reason while it does not consume and tries to.
func OnState(f func(why error)) Option {
	return func(h *Hooks) { h.OnState = f }
}

// On makes a Subscriber consume on a connection that is not started yet. It gets no transport.Connection.
func On(conn *rabbit.Connection) Option {
	return func(h *Hooks) { h.Connection = conn }
}

// SettledByHandlers makes handlers call Settle with the context of each message that they got.
// The ack and the nack of the message have no effect then, and no goroutine waits for them.
func SettledByHandlers() Option {
	return func(h *Hooks) { h.SettledByHandlers = true }
}
