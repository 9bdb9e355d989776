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

// Binder makes queues of other services reachable.
type Binder interface {
	// BindReturn binds a queue to the exchange of the last hop. It fails with a
	// *rabbit.RefusedError of code 404 where there is no such queue.
	BindReturn(ctx context.Context, queue string) error
}

// Hop is the last hop.
type Hop struct {
	Topology  schemas.Topology
	Publisher Publisher
	Binder    Binder
	Own       map[string]bool // queues of our routes, which need no binding
	Login     string          // the user_id that the broker lets us restore
}

// Deliver publishes to the queue state.Queue, mandatory and confirmed. A queue
// of another service gets it by an exchange that routes by header, so that its
// consumer sees the original routing key; ours take the default exchange,
// since a headers exchange is slow with many bindings. The error is a
// *rabbit.UnroutableError where the queue is gone.
func (h Hop) Deliver(ctx context.Context, e schemas.Envelope, state schemas.State) error {
	message := h.Message(e, state)
	err := h.Publisher.Publish(ctx, message)
	var unbound *rabbit.UnroutableError
	if h.Own[state.Queue] || !errors.As(err, &unbound) {
		return err
	}
	if err := h.bind(ctx, state.Queue); err != nil {
		return err
	}
	return h.Publisher.Publish(ctx, message)
}

// Message is what Deliver publishes.
func (h Hop) Message(e schemas.Envelope, state schemas.State) rabbit.Message {
	message := rabbit.Message{
		RoutingKey: state.Queue,
		Publishing: schemas.WrapForQueue(e, state, h.Login),
	}
	if !h.Own[state.Queue] {
		message.Exchange, message.RoutingKey = h.Topology.Return(), e.RoutingKey
	}
	return message
}

func (h Hop) bind(ctx context.Context, queue string) error {
	err := h.Binder.BindReturn(ctx, queue)
	var refused *rabbit.RefusedError
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		return &rabbit.UnroutableError{RoutingKey: queue, Code: amqp.NoRoute, Reason: refused.Reason}
	}
	if err != nil {
		return fmt.Errorf("binding queue %q for the last hop: %w", queue, err)
	}
	return nil
}
