package topology

import (
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ConsistentHash is the type of the exchange that divides the tap copies among several queues. The plugin
// rabbitmq_consistent_hash_exchange has it.
const ConsistentHash = "x-consistent-hash"

// EnableConsistentHash says how a broker gets the type ConsistentHash.
const EnableConsistentHash = "run rabbitmq-plugins enable rabbitmq_consistent_hash_exchange on each node of RabbitMQ, or set index.partitions: 1"

// EqualWeight is the key by which each queue is bound to the exchange that divides the copies.
const EqualWeight = "1"

// dividing returns the exchange that divides the tap copies.
func (c Config) dividing() exchange {
	name, _ := c.Partitions()
	own := amqp.Table{}
	if header, is := strings.CutPrefix(c.PartitionKey, "headers."); is {
		own["hash-header"] = header
	} else if c.PartitionKey != "" {
		own["hash-property"] = c.PartitionKey
	}
	return exchange{name: name, kind: ConsistentHash, internal: true, own: own}
}

// copyQueues returns the queues of tap copies.
func (c Config) copyQueues() (queues []queue) {
	_, names := c.Partitions()
	for _, name := range names {
		queues = append(queues, queue{name, c.indexArgs(amqp.Table{"x-dead-letter-exchange": c.Late()})})
	}
	return queues
}

// copyBindings returns the bindings of the queues of tap copies.
func (c Config) copyBindings() []binding {
	divides, names := c.Partitions()
	if divides == "" {
		return []binding{{names[0], c.Topology.Tap(), ""}}
	}
	var bindings []binding
	for _, name := range names {
		bindings = append(bindings, binding{name, divides, EqualWeight})
	}
	return bindings
}

// bindDividing binds the exchange that divides the tap copies, if there is one, to the tap. Its queues are
// bound before: without them it drops copies.
func (c Config) bindDividing(ch *amqp.Channel) error {
	divides, _ := c.Partitions()
	if divides == "" {
		return nil
	}
	if err := ch.ExchangeBind(divides, "", c.Topology.Tap(), false, nil); err != nil {
		return fmt.Errorf("bind exchange %q to exchange %q: %w", divides, c.Topology.Tap(), err)
	}
	return nil
}

// unknownType returns the error of an exchange whose type the broker does not know, as it lacks a plugin; nil if
// err is another error.
func (e exchange) unknownType(err error) error {
	if e.kind != ConsistentHash || !refusedWith(err, amqp.CommandInvalid) && !refusedWith(err, amqp.PreconditionFailed) {
		return nil
	}
	if !strings.Contains(err.Error(), "unknown exchange type") {
		return nil
	}
	return fmt.Errorf("declare exchange %q: the broker has no exchanges of type %s, by which index.partitions divides copies of messages: %s",
		e.name, ConsistentHash, EnableConsistentHash)
}
