package topology

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// Error is returned if an exchange or queue exists with other arguments.
type Error struct {
	Kind     string // "queue" or "exchange"
	Name     string
	Argument string // the argument that differs, "" if the broker did not name it
	Reason   string // the broker's words
	Remedy   string // the way to resolve it
}

func (e *Error) Error() string {
	differs := "differs from the existing one"
	if e.Argument != "" {
		differs = fmt.Sprintf("differs in argument %q from the existing one", e.Argument)
	}
	return fmt.Sprintf("%s %q %s (%s); %s", e.Kind, e.Name, differs, e.Reason, e.Remedy)
}

// declarer uses one channel for each declaration: a broker that refuses it closes the channel.
type declarer struct {
	ctx  context.Context
	conn *rabbit.Connection
	self *SelfBindings

	turns chan struct{} // of Reconciler.Turns
}

func (d declarer) do(f func(*amqp.Channel) error) error { return d.conn.Do(d.ctx, f) }

func (d declarer) exchange(e exchange, args amqp.Table) error {
	err := d.do(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(e.name, e.kind, true, false, e.internal, false, args)
	})
	if unknown := e.unknownType(err); unknown != nil {
		return unknown
	}
	return topologyError("exchange", e.name, err,
		"delete it if nothing else uses it, or choose another topology.prefix, and retire the former one with watership setup, which moves what waits in its queues")
}

func (d declarer) queue(q queue) error {
	err := d.queueWith(q.name, q.args)
	if former := q.formerArgs(); former != nil && refusedWith(err, amqp.PreconditionFailed) && d.queueWith(q.name, former) == nil {
		return nil
	}
	return topologyError("queue", q.name, err,
		"a queue's arguments never change: let it run empty and delete it, or choose another topology.prefix, and retire the former one with watership setup, which moves what waits in its queues")
}

func (d declarer) queueWith(name string, args amqp.Table) error {
	return d.do(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		return err
	})
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

// tap binds the tap exchange to an exchange so that it gets a copy of every message; the
// messages keep their exchange and routing key.
func (d declarer) tap(tap Tap, c Config) error {
	if err := d.ensureExchange(tap); err != nil {
		return err
	}
	return d.bindTap(tap, c)
}

func (d declarer) bindTap(tap Tap, c Config) error {
	if tap.needsDiscovery() {
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

// ensureExchange declares a tapped exchange that does not exist. The properties of an
// existing one belong to its owner, except for its type, which decides about the bindings.
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

// checkType declares an exchange that exists, since a passive declaration does not
// compare the type. Other differences are the responsibility of the exchange's owner.
func (d declarer) checkType(tap Tap, declare func(*amqp.Channel) error) error {
	err := topologyError("exchange", tap.Exchange, d.do(declare), "give tap.exchanges the type that the exchange has")
	var differs *Error
	if errors.As(err, &differs) && differs.Argument != "type" {
		return nil
	}
	var broker *amqp.Error
	if errors.As(err, &broker) && broker.Code == amqp.AccessRefused {
		return nil // we may use it, and not configure it
	}
	return err
}

// configuredKeys returns the keys that are known without the management API.
func (t Tap) configuredKeys() []string {
	switch {
	case t.Type == amqp.ExchangeTopic && len(t.Keys) == 0:
		return []string{"#"}
	case t.Type == amqp.ExchangeTopic, t.Type == amqp.ExchangeDirect:
		return slices.Compact(slices.Sorted(slices.Values(t.Keys)))
	}
	return []string{""}
}

// Copies reports whether a message certainly reaches the tap. It is false for a topic
// exchange that is tapped with patterns.
func (t Tap) Copies(exchange, key string) bool {
	if exchange != t.Exchange {
		return false
	}
	switch t.Type {
	case amqp.ExchangeTopic:
		return len(t.Keys) == 0 || slices.Contains(t.Keys, key) || slices.Contains(t.Keys, "#")
	case amqp.ExchangeDirect:
		return slices.Contains(t.Keys, key)
	}
	return t.Type == amqp.ExchangeFanout || t.Type == amqp.ExchangeHeaders
}

// bindingArgs returns the arguments of a headers binding that matches every message.
func (t Tap) bindingArgs() amqp.Table {
	if t.Type == amqp.ExchangeHeaders {
		return amqp.Table{"x-match": "all"}
	}
	return nil
}

func (d declarer) route(r Route, c Config) error {
	if err := d.routeQueue(r.Queue, c.routeArgs(r)); err != nil {
		return err
	}
	for _, b := range c.bindingsOf(r) {
		if err := d.bind(b); err != nil {
			return err
		}
	}
	return nil
}

// routeQueue declares a service's queue if it does not exist. An existing queue stays
// unchanged: its arguments belong to the service.
func (d declarer) routeQueue(name string, args amqp.Table) error {
	there, err := d.queueExists(name)
	if err != nil || there {
		return err
	}
	return d.queue(queue{name, args})
}

// stream is the type of queues that no route can have.
const stream = "stream"

func streamError(queue string) error {
	return fmt.Errorf("queue %q of a route is a stream: the route would skip what is published while it does not run; "+
		"bind a queue of type quorum to the same exchange, and name it in the route", queue)
}

func (d declarer) refuseStream(queue string) error {
	is, err := d.conn.IsStream(d.ctx, queue)
	if is {
		return streamError(queue)
	}
	return err
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

// exists returns the result of a passive declaration. A queue that another connection
// uses exclusively exists.
func (d declarer) exists(passive func(*amqp.Channel) error) (bool, error) {
	err := d.do(passive)
	switch {
	case rabbit.IsMissing(err):
		return false, nil
	case refusedWith(err, amqp.ResourceLocked):
		return true, nil
	}
	return err == nil, err
}

func refusedWith(err error, code int) bool {
	var broker *amqp.Error
	return errors.As(err, &broker) && broker.Server && broker.Code == code
}

// inequivalentArgument matches RabbitMQ's text: inequivalent arg 'x-message-ttl' for queue ...
var inequivalentArgument = regexp.MustCompile(`inequivalent arg '([^']+)'`)

func topologyError(kind, name string, err error, remedy string) error {
	if err == nil {
		return nil
	}
	var broker *amqp.Error
	if !errors.As(err, &broker) || broker.Code != amqp.PreconditionFailed {
		return fmt.Errorf("declare %s %q: %w", kind, name, err)
	}
	e := &Error{Kind: kind, Name: name, Reason: broker.Reason, Remedy: remedy}
	if match := inequivalentArgument.FindStringSubmatch(broker.Reason); match != nil {
		e.Argument = match[1]
	}
	return e
}
