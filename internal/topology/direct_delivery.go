package topology

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// Publisher publishes a message and returns once the broker has confirmed it.
type Publisher interface {
	Publish(ctx context.Context, m rabbit.Message) error
}

// Binder binds queues to the exchanges of DirectDelivery; Reconciler is one.
type Binder interface {
	// EnsureReturns makes sure that the broker returns a message that no queue gets.
	EnsureReturns(ctx context.Context, exchange, key string) error

	// BindReturn binds a queue of another service to the return exchange. It fails
	// with a *rabbit.RefusedError of code 404 if there is no such queue.
	BindReturn(ctx context.Context, queue string) error

	// BindDirect binds the queue of a route to the direct exchange. It fails as BindReturn does.
	BindDirect(ctx context.Context, queue string) error
}

// DirectDelivery publishes a message to one queue and to no other: a retried message to
// the queue whose consumer failed, a replayed one to the queue that an operator named.
type DirectDelivery struct {
	Topology  schemas.Topology
	StateKeys schemas.StateKeys // sign states
	Publisher Publisher
	Binder    Binder
	Login     string // the user_id that the broker accepts on this connection

	FrameMax func() wire.FrameMax // of the publisher's connection; nil: RabbitMQ's default
}

// Deliver publishes to the queue state.Queue, mandatory and confirmed. Queues of other
// services are bound to the return exchange, which routes by header, so that their
// consumers see the original routing key. Queues of routes, as the state says, are bound
// to the direct exchange by their name, since a headers exchange is slow with many
// bindings. Deliver
// binds a queue that has no binding, as one that was deleted and declared again. The
// error is a *rabbit.UnroutableError if the queue does not exist.
func (d DirectDelivery) Deliver(ctx context.Context, e schemas.Envelope, state schemas.State) error {
	message := d.Message(e, state)
	if err := d.Binder.EnsureReturns(ctx, message.Exchange, message.RoutingKey); err != nil {
		return err
	}
	err := d.Publisher.Publish(ctx, message)
	var unbound *rabbit.UnroutableError
	if !errors.As(err, &unbound) {
		return err
	}
	if err := d.bind(ctx, state); err != nil {
		return err
	}
	return d.Publisher.Publish(ctx, message)
}

// Message returns the message that Deliver publishes.
func (d DirectDelivery) Message(e schemas.Envelope, state schemas.State) rabbit.Message {
	var frameMax wire.FrameMax
	if d.FrameMax != nil {
		frameMax = d.FrameMax()
	}
	message := rabbit.Message{
		Exchange: d.Topology.Direct(), RoutingKey: state.Queue,
		Publishing: frameMax.WrapForQueue(e, state, d.Login),
	}
	if !state.Route {
		message.Exchange, message.RoutingKey = d.Topology.Return(), e.RoutingKey
	}
	verifier := wire.Verifier{Topology: d.Topology, Keys: d.StateKeys}
	message.Publishing = verifier.Sign(message.Exchange, message.RoutingKey, message.Publishing)
	return message
}

func (d DirectDelivery) bind(ctx context.Context, state schemas.State) error {
	queue, bind := state.Queue, d.Binder.BindReturn
	if state.Route {
		bind = d.Binder.BindDirect
	}
	err := bind(ctx, queue)
	var refused *rabbit.RefusedError
	if errors.As(err, &refused) && rabbit.IsMissing(err) {
		return &rabbit.UnroutableError{RoutingKey: queue, Code: amqp.NoRoute, Reason: refused.Reason}
	}
	if err != nil {
		return fmt.Errorf("binding queue %q for direct delivery: %w", queue, err)
	}
	return nil
}
