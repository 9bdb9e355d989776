// Package lasthop takes a message to one queue and to no other: a retried one
// to the queue that failed, a replayed one to the queue that an operator named.
package lasthop

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Publisher publishes a message and returns once the broker has it safe.
type Publisher interface {
	Publish(ctx context.Context, m rabbit.Message) error
}

// Binder makes queues reachable.
type Binder interface {
	// BindReturn binds a queue of another service to the exchange of the last hop. It
	// fails with a *rabbit.RefusedError of code 404 where there is no such queue.
	BindReturn(ctx context.Context, queue string) error

	// BindDirect binds the queue of a route, and fails as BindReturn does.
	BindDirect(ctx context.Context, queue string) error
}

// Hop is the last hop.
type Hop struct {
	Topology  schemas.Topology
	StateKeys schemas.StateKeys // sign what travels
	Publisher Publisher
	Binder    Binder
	Own       map[string]bool // queues of our routes
	Login     string          // the user_id that the broker lets us restore

	FrameMax func() schemas.FrameMax // of the publisher's connection; nil: RabbitMQ's default
}

// Deliver publishes to the queue state.Queue, mandatory and confirmed. A queue
// of another service gets it by an exchange that routes by header, so that its
// consumer sees the original routing key; queues of routes by one that routes by
// the queue's name, since a headers exchange is slow with many bindings. The queue is
// bound where it is not: a queue that was made anew has lost its bindings. The error
// is a *rabbit.UnroutableError where the queue is gone.
func (h Hop) Deliver(ctx context.Context, e schemas.Envelope, state schemas.State) error {
	message := h.Message(e, state)
	err := h.Publisher.Publish(ctx, message)
	var unbound *rabbit.UnroutableError
	if !errors.As(err, &unbound) {
		return err
	}
	if err := h.bind(ctx, state.Queue); err != nil {
		return err
	}
	return h.Publisher.Publish(ctx, message)
}

// Message is what Deliver publishes.
func (h Hop) Message(e schemas.Envelope, state schemas.State) rabbit.Message {
	var frameMax schemas.FrameMax
	if h.FrameMax != nil {
		frameMax = h.FrameMax()
	}
	message := rabbit.Message{
		Exchange: h.Topology.Direct(), RoutingKey: state.Queue,
		Publishing: frameMax.WrapForQueue(e, state, h.Login),
	}
	if !h.Own[state.Queue] {
		message.Exchange, message.RoutingKey = h.Topology.Return(), e.RoutingKey
	}
	verifier := schemas.Verifier{Topology: h.Topology, Keys: h.StateKeys}
	message.Publishing = verifier.Sign(message.Exchange, message.RoutingKey, message.Publishing)
	return message
}

func (h Hop) bind(ctx context.Context, queue string) error {
	bind := h.Binder.BindReturn
	if h.Own[queue] {
		bind = h.Binder.BindDirect
	}
	err := bind(ctx, queue)
	var refused *rabbit.RefusedError
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		return &rabbit.UnroutableError{RoutingKey: queue, Code: amqp.NoRoute, Reason: refused.Reason}
	}
	if err != nil {
		return fmt.Errorf("binding queue %q for the last hop: %w", queue, err)
	}
	return nil
}
