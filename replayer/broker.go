package replayer

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/replayer/internal/planbroker"
)

// connection configures a connection to the broker.
func (r *Replayer) connection() rabbit.Config {
	return rabbit.Config{URL: r.cfg.URL, TLS: r.cfg.TLS, Dial: r.cfg.Dial, Name: "watership replay", Instance: r.cfg.Instance, Logger: r.cfg.Logger}
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
func (r *Replayer) askBroker(ctx context.Context, target Target) (planbroker.Broker, error) {
	return planbroker.Open(ctx, planbroker.Config{
		Broker: r.connection(), Topology: r.cfg.Topology, ManagementURL: r.cfg.ManagementURL, UncheckedRoutes: r.cfg.UncheckedRoutes,
		ByExchange: target.Kind == ToOrigin || target.Kind == ToExchange,
	})
}
