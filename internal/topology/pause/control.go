package pause

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// ByOperator is the error type of the `paused` and `resumed` events of operators, which
// distinguishes them from events of circuit breakers.
const ByOperator = "operator"

// Control pauses and resumes routes, and records that.
type Control struct {
	Topology   schemas.Topology
	Connection *rabbit.Connection
	Publisher  Publisher // on Connection

	// Sign signs the state of an event.
	Sign func(rabbit.Message) rabbit.Message
}

// Pause pauses the route of a queue, or All, in every process. A route that is paused stays so.
func (c Control) Pause(ctx context.Context, queue, why string) error {
	err := c.Connection.Do(ctx, func(ch *amqp.Channel) error {
		return ch.QueueBind(c.Topology.Paused(), keyOf(c.Topology, queue), c.Topology.Pauses(), false, nil)
	})
	if err != nil {
		return c.withRemedy(err, "pausing", queue)
	}
	return c.record(ctx, schemas.Paused, queue, "", why)
}

// Resume resumes the route of a queue, or All: routes that are paused themselves stay so. A
// route that is not paused goes on.
func (c Control) Resume(ctx context.Context, queue, why string) error {
	err := c.Connection.Do(ctx, func(ch *amqp.Channel) error {
		return ch.QueueUnbind(c.Topology.Paused(), keyOf(c.Topology, queue), c.Topology.Pauses(), nil)
	})
	if err != nil {
		return c.withRemedy(err, "resuming", queue)
	}
	return c.record(ctx, schemas.Resumed, queue, "", why)
}

func nameOf(queue string) string {
	if queue == All {
		return "all routes"
	}
	return "the route of queue " + queue
}

func (c Control) withRemedy(err error, what, queue string) error {
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		return fmt.Errorf("%s %s: exchange %s or queue %s is missing: run watership setup", what, nameOf(queue), c.Topology.Pauses(), c.Topology.Paused())
	}
	return fmt.Errorf("%s %s: %w", what, nameOf(queue), err)
}

// record publishes the event of a route, or of one of its keys, that was paused or resumed.
func (c Control) record(ctx context.Context, action schemas.Action, queue, key, why string) error {
	none, now := schemas.Envelope{}, time.Now()
	state := schemas.State{
		Fingerprint: none.Fingerprint(), EventID: string(action) + ":" + rand.Text(), Queue: queue, Receiver: key, Time: now, FirstFailed: now,
		Failure: schemas.Failure{Type: ByOperator, Message: why},
	}
	err := c.Publisher.Publish(ctx, c.Sign(rabbit.Message{
		Exchange: c.Topology.Events(), RoutingKey: string(action), Publishing: wire.DefaultFrameMax.Wrap(none, state),
	}))
	if err != nil {
		return fmt.Errorf("%s: %s, but publishing the event failed: %w", nameOf(queue), action, err)
	}
	return nil
}
