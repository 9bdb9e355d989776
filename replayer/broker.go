package replayer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

// connection configures a connection to the broker.
func (r *Replayer) connection() rabbit.Config {
	return rabbit.Config{URL: r.cfg.URL, TLS: r.cfg.TLS, Name: "watership replay", Instance: r.cfg.Instance, Logger: r.cfg.Logger}
}

// login returns the user_id that the broker accepts in messages.
func (c Config) login() string {
	uri, err := amqp.ParseURI(c.URL) // a connection reports the error
	if err != nil {
		return ""
	}
	return rabbit.UserID(uri)
}

// directDelivery returns the publisher to single queues on the connection of a job.
func (r *Replayer) directDelivery(conn *rabbit.Connection, publisher *rabbit.Publisher) topology.DirectDelivery {
	return topology.DirectDelivery{
		Topology: r.cfg.Topology, StateKeys: r.cfg.StateKeys, Publisher: publisher, Login: r.login,
		Binder: topology.Reconciler{Conn: conn, Config: topology.Config{Topology: r.cfg.Topology}},
	}
}

// planBroker answers the questions of a plan to RabbitMQ.
type planBroker struct {
	log    func(context.Context) (Log, error)
	routes routeChecker // nil: routes are not checked
	Close  func() error
}

// routeChecker checks whether messages are routable. The mandatory flag cannot tell on a
// tapped exchange, since the tap is a route.
type routeChecker interface {
	// Routable reports whether a message reaches a queue other than Watership's.
	Routable(ctx context.Context, e schemas.Envelope) (bool, error)

	// QueueExists reports whether a queue exists.
	QueueExists(ctx context.Context, queue string) (bool, error)
}

const answerTimeout = 15 * time.Second // for one answer of the broker to a plan

var errNoAnswer = fmt.Errorf("no answer within %s", answerTimeout)

// askBroker connects to the broker for a plan. Without a URL a plan uses only the store.
func (r *Replayer) askBroker(ctx context.Context, target Target) (b planBroker, err error) {
	if r.cfg.URL == "" {
		unknown := func(context.Context) (Log, error) { return Log{Unknown: true}, nil }
		return planBroker{log: unknown, Close: func() error { return nil }}, nil
	}
	conn, err := rabbit.Open(r.connection())
	if err != nil {
		return b, err
	}
	client := rabbit.ManagementClient(r.cfg.TLS)
	b.log = func(ctx context.Context) (Log, error) { return logState(ctx, conn, r.cfg.Topology.Log()) }
	b.Close = func() error { client.CloseIdleConnections(); return conn.Close() }
	if !r.cfg.UncheckedRoutes {
		if b.routes, err = r.checkRoutes(ctx, conn, client, target); err != nil {
			return b, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// logState returns the state of the log queue; Unknown if the login may not see the queue.
func logState(ctx context.Context, conn *rabbit.Connection, queue string) (Log, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	log, _, err := conn.QueueState(ctx, queue)
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.AccessRefused {
		return Log{Unknown: true}, nil
	}
	return Log{Events: log.Messages, Consumers: log.Consumers, Unknown: log.Locked}, err
}

// checkRoutes returns a client of the management API, which knows the bindings of
// exchanges. It fails if the plan needs the API, and the API does not answer.
func (r *Replayer) checkRoutes(ctx context.Context, conn *rabbit.Connection, client *http.Client, target Target) (routeChecker, error) {
	address := r.cfg.ManagementURL
	if address == "" {
		address = rabbit.ManagementURL(r.cfg.URL)
	}
	management, err := rabbit.NewManagement(address, client)
	if err != nil {
		return nil, err
	}
	if target.Kind == ToOrigin || target.Kind == ToExchange {
		ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
		defer cancel()
		if _, err := management.WhoAmI(ctx); err != nil {
			return nil, fmt.Errorf("whether the routes lead to a queue cannot be checked (%w): "+
				"set amqp.management_url (now %s), or go on with --unchecked-routes", err, withoutPassword(address))
		}
	}
	return topology.NewRouteChecker(management, conn, conn.VHost(), r.cfg.Topology), nil
}

func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "not a URL"
	}
	return u.Redacted()
}
