package replayer

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/replayer/internal/planbroker"
)

// connection configures a connection to the broker.
func (c Config) connection() rabbit.Config {
	return rabbit.At(c.Connection, "replay", c.Logger)
}

// login returns the user_id that the broker accepts in messages.
func (c Config) login() string {
	uri, err := amqp.ParseURI(c.URL) // a connection reports the error
	if err != nil {
		return ""
	}
	return rabbit.UserID(uri)
}

// askBroker connects to the broker for a plan.
func (c Config) askBroker(ctx context.Context, target Target) (planbroker.Broker, error) {
	broker, err := planbroker.Open(ctx, planbroker.Config{
		Broker: c.connection(), Topology: c.Topology, ManagementURL: c.ManagementURL, ManagementNodes: c.ManagementNodes, UncheckedRoutes: c.UncheckedRoutes,
		ByExchange: target.Kind == ToOrigin || target.Kind == ToExchange,
	})
	if errors.Is(err, planbroker.ErrUnchecked) {
		err = &UncheckedError{err}
	}
	return broker, err
}
