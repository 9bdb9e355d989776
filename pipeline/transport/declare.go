package transport

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// TopologyError says that an exchange or queue is there already, but not as it is
// to be.
type TopologyError struct {
	Kind     string // "queue" or "exchange"
	Name     string
	Argument string // the argument that differs, "" where the broker did not say
	Reason   string // the broker's words
	Remedy   string // what to do
}

func (e *TopologyError) Error() string {
	differs := "differs from what is there"
	if e.Argument != "" {
		differs = fmt.Sprintf("differs in argument %q from what is there", e.Argument)
	}
	return fmt.Sprintf("%s %q %s (%s); %s", e.Kind, e.Name, differs, e.Reason, e.Remedy)
}

// declarer declares one thing on one channel: a broker that refuses closes it.
type declarer struct {
	ctx  context.Context
	conn *rabbit.Connection
}

func (d declarer) do(f func(*amqp.Channel) error) error { return d.conn.Do(d.ctx, f) }

func (d declarer) exchange(e exchange) error {
	err := d.do(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(e.name, e.kind, true, false, e.internal, false, nil)
	})
	return topologyError("exchange", e.name, err,
		"delete it if nothing else uses it, or choose another topology.prefix")
}

// ours declares one of our exchanges.
func (d declarer) ours(e exchange, c TopologyConfig) error {
	err := d.exchange(e)
	var differs *TopologyError
	if errors.As(err, &differs) && differs.Argument == "internal" && c.mayBeOpen(e.name) {
		return nil
	}
	return err
}

func (d declarer) queue(q queue) error {
	err := d.do(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(q.name, true, false, false, false, q.args)
		return err
	})
	return topologyError("queue", q.name, err,
		"a queue's arguments never change: let it run empty and delete it, or choose another topology.prefix")
}

func (d declarer) bind(b binding) error {
	err := d.do(func(ch *amqp.Channel) error {
		return ch.QueueBind(b.queue, b.key, b.exchange, false, nil)
	})
	if err != nil {
		return fmt.Errorf("bind queue %q to exchange %q with key %q: %w", b.queue, b.exchange, b.key, err)
	}
	return nil
}

// tap binds our tap to an exchange so that it gets a copy of every message; the
// messages keep their exchange and routing key.
func (d declarer) tap(tap Tap, c TopologyConfig) error {
	if err := d.ensureExchange(tap); err != nil {
		return err
	}
	return d.bindTap(tap, c)
}

func (d declarer) bindTap(tap Tap, c TopologyConfig) error {
	if tap.discovered() {
		return d.bindDiscovered(tap, c)
	}
	return d.bindKeys(tap, c.Topology.Tap(), tap.configuredKeys())
}

func (d declarer) bindKeys(tap Tap, to string, keys []string) error {
	for _, key := range keys {
		err := d.do(func(ch *amqp.Channel) error {
			return ch.ExchangeBind(to, key, tap.Exchange, false, tap.bindingArgs())
		})
		if err != nil {
			return fmt.Errorf("tap exchange %q with key %q: %w", tap.Exchange, key, err)
		}
	}
	return nil
}

// ensureExchange makes sure that the exchange exists. One that does is not ours to judge
// but for its type, by which it would be tapped wrongly.
func (d declarer) ensureExchange(tap Tap) error {
	there, err := d.exchangeExists(exchange{name: tap.Exchange, kind: tap.Type})
	if err != nil {
		return err
	}
	declare := func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(tap.Exchange, tap.Type, true, false, false, false, nil)
	}
	if there {
		return d.checkType(tap, declare)
	}
	if err := d.do(declare); err != nil {
		return fmt.Errorf("declare tapped exchange %q: %w", tap.Exchange, err)
	}
	return nil
}

// checkType declares an exchange that is there, since a passive declaration does
// not look at the type. Whatever else the broker dislikes about the declaration is
// the exchange owner's affair.
func (d declarer) checkType(tap Tap, declare func(*amqp.Channel) error) error {
	err := topologyError("exchange", tap.Exchange, d.do(declare), "give tap.exchanges the type that the exchange has")
	var differs *TopologyError
	if errors.As(err, &differs) && differs.Argument != "type" {
		return nil
	}
	var broker *amqp.Error
	if errors.As(err, &broker) && broker.Code == amqp.AccessRefused {
		return nil // we may use it, and not configure it
	}
	return err
}

// configuredKeys are those that are known without asking.
func (t Tap) configuredKeys() []string {
	switch {
	case t.Type == amqp.ExchangeTopic && len(t.Keys) == 0:
		return []string{"#"}
	case t.Type == amqp.ExchangeTopic, t.Type == amqp.ExchangeDirect:
		return slices.Compact(slices.Sorted(slices.Values(t.Keys)))
	}
	return []string{""}
}

// Copies says whether a message certainly reaches the tap. Of a topic exchange
// that is tapped in part it says no.
func (t Tap) Copies(exchange, key string) bool {
	if exchange != t.Exchange {
		return false
	}
	return t.Type == amqp.ExchangeFanout || t.Type == amqp.ExchangeHeaders ||
		slices.Contains(t.configuredKeys(), key) || slices.Contains(t.configuredKeys(), "#")
}

// bindingArgs: no header to match, and all of those do.
func (t Tap) bindingArgs() amqp.Table {
	if t.Type == amqp.ExchangeHeaders {
		return amqp.Table{"x-match": "all"}
	}
	return nil
}

func (d declarer) route(r Route, c TopologyConfig) error {
	if err := d.routeQueue(r.Queue, c.args(nil)); err != nil {
		return err
	}
	for _, b := range c.bindingsOf(r) {
		if err := d.bind(b); err != nil {
			return err
		}
	}
	return nil
}

// routeQueue declares a service's queue if there is none. One that is there stays
// as it is: its arguments are the service's affair.
func (d declarer) routeQueue(name string, args amqp.Table) error {
	there, err := d.queueExists(name)
	if err != nil || there {
		return err
	}
	return d.queue(queue{name, args})
}

func (d declarer) queueExists(name string) (bool, error) {
	there, err := d.exists(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for queue %q: %w", name, err)
	}
	return there, nil
}

func (d declarer) exchangeExists(e exchange) (bool, error) {
	there, err := d.exists(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(e.name, e.kind, true, false, e.internal, false, nil)
	})
	if err != nil {
		return false, fmt.Errorf("look for exchange %q: %w", e.name, err)
	}
	return there, nil
}

// exists says what a passive declaration found. A queue that another connection
// uses exclusively is there.
func (d declarer) exists(passive func(*amqp.Channel) error) (bool, error) {
	err := d.do(passive)
	switch {
	case isNotFound(err):
		return false, nil
	case refusedWith(err, amqp.ResourceLocked):
		return true, nil
	}
	return err == nil, err
}

// isNotFound says whether the broker refused something since there is no such
// exchange or queue.
func isNotFound(err error) bool { return refusedWith(err, amqp.NotFound) }

func refusedWith(err error, code int) bool {
	var broker *amqp.Error
	return errors.As(err, &broker) && broker.Server && broker.Code == code
}

// differing is how RabbitMQ words it: inequivalent arg 'x-message-ttl' for queue ...
var differing = regexp.MustCompile(`inequivalent arg '([^']+)'`)

func topologyError(kind, name string, err error, remedy string) error {
	if err == nil {
		return nil
	}
	var broker *amqp.Error
	if !errors.As(err, &broker) || broker.Code != amqp.PreconditionFailed {
		return fmt.Errorf("declare %s %q: %w", kind, name, err)
	}
	e := &TopologyError{Kind: kind, Name: name, Reason: broker.Reason, Remedy: remedy}
	if match := differing.FindStringSubmatch(broker.Reason); match != nil {
		e.Argument = match[1]
	}
	return e
}
