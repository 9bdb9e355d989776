// Package planbroker answers the questions of a plan to RabbitMQ: the state of the queue of
// events, and whether messages would reach a queue.
package planbroker

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

// Config has the connection of a plan.
type Config struct {
	Broker   rabbit.Config // without a URL a plan uses only the store
	Topology schemas.Topology

	// ManagementURL is the management API, with further nodes; "": on the hosts of the broker.
	ManagementURL   string
	ManagementNodes []string
	UncheckedRoutes bool // routes are not checked
	ByExchange      bool // messages are sent to exchanges, so that only the management API knows their routes
}

// Broker is the RabbitMQ of a plan.
type Broker struct {
	Log    func(context.Context) (Log, error)
	Routes RouteChecker // nil: routes are not checked
	Close  func() error
}

// Log is the state of the queue of events.
type Log struct {
	Events    int // that are not in the store yet
	Consumers int
	Unknown   bool
}

// RouteChecker checks whether messages are routable. The mandatory flag cannot tell on a
// tapped exchange, since the tap is a route.
type RouteChecker interface {
	// Routable reports whether a message reaches a queue other than Watership's.
	Routable(ctx context.Context, e schemas.Envelope) (bool, error)

	// QueueExists reports whether a queue exists.
	QueueExists(ctx context.Context, queue string) (bool, error)
}

const answerTimeout = 20 * time.Second // for one answer of the broker to a plan

var errNoAnswer = fmt.Errorf("no answer within %s", answerTimeout)

// Open connects to the broker.
func Open(ctx context.Context, cfg Config) (b Broker, err error) {
	if cfg.Broker.URL == "" {
		unknown := func(context.Context) (Log, error) { return Log{Unknown: true}, nil }
		return Broker{Log: unknown, Close: func() error { return nil }}, nil
	}
	conn, err := rabbit.Open(cfg.Broker)
	if err != nil {
		return b, err
	}
	client := rabbit.ManagementClient(cfg.Broker.TLS, cfg.Broker.Dial)
	b.Log = func(ctx context.Context) (Log, error) {
		return LogState(ctx, conn.CertainQueueState, cfg.Topology.Log())
	}
	b.Close = func() error { client.CloseIdleConnections(); return conn.Close() }
	if !cfg.UncheckedRoutes {
		if b.Routes, err = cfg.checkRoutes(ctx, conn, client); err != nil {
			return b, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// queueStateFunc is CertainQueueState of a connection.
type queueStateFunc func(ctx context.Context, queue string) (state rabbit.QueueState, found bool, err error)

// LogState returns the state of the log queue; Unknown if the login may not see the queue.
func LogState(ctx context.Context, ask queueStateFunc, queue string) (Log, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	log, _, err := ask(ctx, queue)
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.AccessRefused {
		return Log{Unknown: true}, nil
	}
	return Log{Events: log.Messages, Consumers: log.Consumers, Unknown: log.Locked}, err
}

// ErrUnchecked is returned if the management API does not answer, and the plan needs it.
var ErrUnchecked = errors.New("whether the routes lead to a queue cannot be checked")

// checkRoutes returns a client of the management API, which knows the bindings of
// exchanges. It fails if the plan needs the API, and the API does not answer.
func (c Config) checkRoutes(ctx context.Context, conn *rabbit.Connection, client *http.Client) (RouteChecker, error) {
	address, nodes := c.ManagementURL, c.ManagementNodes
	if address == "" {
		address, nodes = rabbit.ManagementURL(c.Broker.URL), rabbit.ManagementNodes(c.Broker.URL, c.Broker.Nodes)
	}
	management, err := rabbit.NewManagement(address, client, nodes...)
	if err != nil {
		return nil, err
	}
	if c.ByExchange {
		ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
		defer cancel()
		if _, err := management.WhoAmI(ctx); err != nil {
			return nil, fmt.Errorf("%w (%w): set the URL of the management API, amqp.management_url in a configuration file (now %s)", ErrUnchecked, err, withoutPassword(address))
		}
	}
	return topology.NewRouteChecker(management, conn, conn.VHost(), c.Topology), nil
}

func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "not a URL"
	}
	return u.Redacted()
}
