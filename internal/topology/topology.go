// Package topology declares Watership's exchanges, queues and bindings in RabbitMQ, keeps
// them declared while messages flow, and migrates the queues of former releases.
package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// QueueType is the type of Watership's queues, and of route queues that do not exist yet.
type QueueType string

const (
	Quorum  QueueType = "quorum"  // replicated; the default
	Classic QueueType = "classic" // on one node
)

// Config is the topology that Declare declares.
type Config struct {
	schemas.Topology

	QueueType QueueType       // "" is Quorum
	Delays    []time.Duration // of the delay queues, whole milliseconds, each above zero
	Tap       []Tap
	Routes    []Route

	// Discovery finds the keys of direct exchanges that are tapped without. Nil:
	// each needs its keys.
	Discovery *Discovery
}

// Tap is an exchange whose messages are copied to the index queue.
type Tap struct {
	Exchange string
	Type     string   // topic, fanout, headers or direct; used if the exchange is declared
	Keys     []string // the routing keys to copy; empty: "#" for a topic exchange, the bound keys of a direct one
}

// Route is a queue with its bindings.
type Route struct {
	Queue     string
	Bind      []Bind
	Arguments amqp.Table // of the queue, if it does not exist; they precede the arguments of Config
	Ordered   bool       // it has a queue for the places of its messages
	Consumed  bool       // here, which a stream cannot be
}

// Bind binds a route's queue to an exchange, which must exist.
type Bind struct {
	Exchange string
	Key      string
}

// noDeliveryLimit means no limit in every version of RabbitMQ: 4.x has a default of 20,
// after which it drops a message silently, and -1 drops at the first redelivery on 3.10.
const noDeliveryLimit = int32(2147483647)

// Declare declares Watership's exchanges and queues, the delay queues, the taps and the
// queues of routes. It is idempotent: existing ones stay unchanged. If the arguments of an
// existing queue of Watership differ it fails with an Error, since a queue's
// arguments cannot change. It fails as well if the queue of a route is a stream.
func Declare(ctx context.Context, conn *rabbit.Connection, cfg Config) error {
	return Reconciler{Conn: conn}.declarer(ctx).declare(cfg)
}

func (d declarer) declare(cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	for _, e := range cfg.exchanges() {
		if err := d.ownExchange(e, cfg); err != nil {
			return err
		}
	}
	if err := d.bindAllToThemselves(cfg); err != nil {
		return err
	}
	if err := d.queues(cfg, cfg.queues()...); err != nil {
		return err
	}
	for _, b := range cfg.bindings() {
		if err := d.bind(b); err != nil {
			return err
		}
	}
	if err := d.do(cfg.bindDividing); err != nil {
		return err
	}
	var unanswered error
	for _, tap := range cfg.Tap {
		if err := d.tap(tap, cfg); errors.Is(err, rabbit.ErrNoAnswer) {
			unanswered = errors.Join(unanswered, err)
		} else if err != nil {
			return err
		}
	}
	for _, route := range cfg.Routes {
		if err := d.route(route, cfg); err != nil {
			return err
		}
		if route.Consumed {
			if err := d.refuseStream(route.Queue); err != nil {
				return err
			}
		}
	}
	return unanswered
}

func (c Config) queueType() QueueType {
	if c.QueueType == "" {
		return Quorum
	}
	return c.QueueType
}

func (c Config) validate() error {
	if t := c.queueType(); t != Quorum && t != Classic {
		return fmt.Errorf("queue type %q: expected quorum or classic", t)
	}
	for _, d := range c.Delays {
		if d < time.Millisecond || d%time.Millisecond != 0 {
			return fmt.Errorf("delay %v: expected whole milliseconds, at least one", d)
		}
	}
	for _, tap := range c.Tap {
		if err := c.validateTap(tap); err != nil {
			return err
		}
	}
	for _, route := range c.Routes {
		if err := route.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (r Route) validate() error {
	if err := rabbit.CheckName(r.Queue); err != nil {
		return fmt.Errorf("route: the queue has %w", err)
	}
	if r.Arguments["x-queue-type"] == stream {
		return streamError(r.Queue)
	}
	for _, b := range r.Bind {
		if err := rabbit.CheckName(b.Exchange); err != nil {
			return fmt.Errorf("route of queue %q: bound to an exchange that has %w", r.Queue, err)
		}
	}
	return nil
}

func (c Config) validateTap(tap Tap) error {
	switch {
	case tap.Exchange == "":
		return fmt.Errorf("tap: the default exchange cannot be tapped, since nothing can be bound to it")
	case c.Owns(tap.Exchange):
		return fmt.Errorf("tap: exchange %q belongs to Watership; its messages would be recorded endlessly", tap.Exchange)
	}
	if err := rabbit.CheckName(tap.Exchange); err != nil {
		return fmt.Errorf("tap: the exchange has %w", err)
	}
	switch tap.Type {
	case amqp.ExchangeTopic, amqp.ExchangeFanout, amqp.ExchangeHeaders:
		return nil
	case amqp.ExchangeDirect:
		if tap.needsDiscovery() && c.Discovery == nil {
			return fmt.Errorf("tap of exchange %q: a direct exchange needs the routing keys to copy", tap.Exchange)
		}
		return nil
	}
	return fmt.Errorf("tap of exchange %q: type %q: expected topic, fanout, headers or direct", tap.Exchange, tap.Type)
}

type exchange struct {
	name, kind string
	internal   bool
	own        amqp.Table // arguments that every such exchange has
}

func (c Config) exchanges() []exchange {
	all := []exchange{
		{name: c.Topology.Tap(), kind: amqp.ExchangeFanout, internal: true},
		{name: c.Events(), kind: amqp.ExchangeTopic},
		{name: c.Late(), kind: amqp.ExchangeFanout, internal: true},
		{name: c.Retry(), kind: amqp.ExchangeTopic, internal: true},
		{name: c.Report(), kind: amqp.ExchangeTopic},
		c.direct(),
		c.returnExchange(),
		{name: c.Pauses(), kind: amqp.ExchangeDirect},
	}
	if c.IndexPartitions > 1 {
		all = append(all, c.dividing())
	}
	return all
}

// mayLackInternal reports whether an exchange may exist without being internal, as a former
// release declared it: it cannot be changed, and deleting it loses messages that are
// dead-lettered until it is declared again.
func (c Config) mayLackInternal(exchange string) bool {
	return exchange == c.Late() || exchange == c.Retry()
}

func (c Config) direct() exchange {
	return exchange{name: c.Direct(), kind: amqp.ExchangeDirect}
}

func (c Config) returnExchange() exchange {
	return exchange{name: c.Return(), kind: amqp.ExchangeHeaders}
}

type binding struct {
	queue, exchange, key string
}

func (c Config) bindings() []binding {
	bindings := []binding{
		{c.Log(), c.Events(), "#"},
		{c.IndexLate(), c.Late(), ""},
		{c.Retry(), c.Retry(), "#"},
		{c.Report(), c.Report(), "#"},
		c.directBinding(c.Topology.Due()), c.directBinding(c.Poison()), c.directBinding(c.Unstorable()),
	}
	bindings = append(bindings, c.copyBindings()...)
	for _, delay := range c.Delays {
		bindings = append(bindings, c.directBinding(wire.DelaysOf(c.Topology).Queue(delay)))
	}
	for _, queue := range c.placeQueues() {
		bindings = append(bindings, c.directBinding(queue))
	}
	return bindings
}

// directBinding binds a queue to the direct exchange by its name.
func (c Config) directBinding(queue string) binding {
	return binding{queue, c.Direct(), queue}
}
