package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
)

// QueueType is the type of Watership's queues, and of route queues that do not exist yet.
type QueueType string

const (
	Quorum  QueueType = "quorum"  // replicated; the default
	Classic QueueType = "classic" // on one node
)

// Tap is an exchange whose messages are copied to the index queue.
type Tap struct {
	Exchange string
	Type     string   // topic, fanout, headers or direct; used if the exchange is declared
	Keys     []string // the routing keys to copy; empty: "#" for a topic exchange, the bound keys of a direct one
}

// Declare declares the topology of a configuration: Watership's exchanges and queues, the
// delay queues, the taps and the queues of routes. It is idempotent: existing ones stay
// unchanged. If the arguments of an existing queue of Watership differ it fails, since a
// queue's arguments cannot change. Run declares the topology as well.
func Declare(ctx context.Context, cfg Config) (err error) {
	uri, err := parseURL(cfg.URL)
	if err != nil {
		return err
	}
	declared, err := cfg.topology(uri.Vhost)
	if err != nil {
		return err
	}
	conn, err := rabbit.Open(rabbit.At(cfg.Connection, "declaring", cfg.Logger))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return topology.Declare(ctx, conn, declared)
}

func parseURL(url string) (amqp.URI, error) {
	uri, err := amqp.ParseURI(url)
	if err != nil { // it quotes the password
		return uri, errors.New("the AMQP URL cannot be read: expected amqp://LOGIN:PASSWORD@HOST:PORT/VHOST")
	}
	return uri, nil
}

// Delays returns the delays of all policies, each of which has a queue.
func (c Config) Delays() []time.Duration {
	c = c.withDefaults()
	delays := c.Default.AllDelays()
	for _, route := range c.Routes {
		delays = append(delays, route.Policy.AllDelays()...)
	}
	return delays
}

// topology returns the topology that Run declares.
func (c Config) topology(vhost string) (topology.Config, error) {
	t := topology.Config{Topology: c.Topology, QueueType: topology.QueueType(c.QueueType), Delays: c.Delays()}
	for _, tap := range c.Tap {
		t.Tap = append(t.Tap, topology.Tap(tap))
	}
	for _, route := range c.Routes {
		t.Routes = append(t.Routes, route.declared()...)
	}
	if c.ManagementURL == "" {
		return t, nil
	}
	var err error
	if t.Discovery, err = topology.NewDiscovery(c.ManagementURL, vhost, c.ManagementClient, c.ManagementNodes...); err != nil {
		return t, fmt.Errorf("the URL of the management API: %w", err)
	}
	return t, nil
}

// declared returns the queues of a route. Another program declares the queue of a route
// without a handler.
func (r Route) declared() []topology.Route {
	var queues []topology.Route
	if r.Handler != nil {
		bound := topology.Route{Queue: r.Queue, Arguments: r.Arguments, Ordered: r.Fairness.Ordered, Consumed: true}
		for _, b := range r.Bind {
			bound.Bind = append(bound.Bind, topology.Bind(b))
		}
		queues = append(queues, bound)
	}
	if r.Park {
		queues = append(queues, topology.Route{Queue: r.parking()})
	}
	return queues
}

// queueBuilder is a watermill-amqp TopologyBuilder whose topics are queue names.
type queueBuilder struct{ topology.Reconciler }

var _ wamqp.TopologyBuilder = queueBuilder{}

// BuildTopology prepares a queue for its consumer.
func (b queueBuilder) BuildTopology(_ *amqp.Channel, queue, _ string, _ wamqp.Config, _ watermill.LoggerAdapter) error {
	return b.PrepareQueue(context.Background(), queue)
}

// ExchangeDeclare does nothing: topics are names of queues.
func (queueBuilder) ExchangeDeclare(*amqp.Channel, string, wamqp.Config) error { return nil }

// queueType returns the type of the queue of a route, if serve declares it.
func (c Config) queueType(r Route) QueueType {
	if t, ok := r.Arguments["x-queue-type"].(string); ok {
		return QueueType(t)
	}
	return cmp.Or(c.QueueType, Quorum)
}
