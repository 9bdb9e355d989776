package topology

import (
	"maps"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire"
)

type queue struct {
	name string
	args amqp.Table
}

// queues returns Watership's queues, each with its arguments, which cannot change.
func (c Config) queues() []queue {
	queues := append(c.copyQueues(), []queue{
		{c.Log(), c.keepingArgs(singleActiveConsumer())},
		{c.IndexLate(), c.indexArgs(nil)},
		{c.Retry(), c.keepingArgs(nil)},
		{c.Report(), c.reportArgs()},
		{c.Topology.Due(), c.keepingArgs(nil)},
		{c.Poison(), c.keepingArgs(nil)},
		{c.Unstorable(), c.keepingArgs(nil)},
		{c.Paused(), c.args(amqp.Table{"x-message-ttl": int64(0), "x-max-length": int64(1)})},
	}...)
	for _, delay := range c.Delays {
		queues = append(queues, queue{wire.DelaysOf(c.Topology).Queue(delay), c.delayArgs(delay.Milliseconds())})
	}
	for _, places := range c.placeQueues() {
		queues = append(queues, queue{places, c.args(nil)})
	}
	return queues
}

// queueNamed returns one of Watership's queues.
func (c Config) queueNamed(name string) (queue, bool) {
	for _, q := range c.queues() {
		if q.name == name {
			return q, true
		}
	}
	return queue{}, false
}

// placeQueues returns the names of the queues with the places of messages.
func (c Config) placeQueues() (names []string) {
	for _, route := range c.Routes {
		if route.Ordered {
			names = append(names, c.Places(route.Queue))
		}
	}
	return names
}

// singleActiveConsumer delivers a queue's messages to one consumer at a time, in their
// order.
func singleActiveConsumer() amqp.Table { return amqp.Table{"x-single-active-consumer": true} }

// args returns the arguments of every queue of Watership: its type, and for quorum queues
// no delivery limit, since a crash loop must not drop messages.
func (c Config) args(more amqp.Table) amqp.Table {
	args := amqp.Table{"x-queue-type": string(c.queueType())}
	if c.queueType() == Quorum {
		args["x-delivery-limit"] = noDeliveryLimit
	}
	maps.Copy(args, more)
	return args
}

// keepingArgs returns the arguments of a queue whose publishers, or the queues that dead-letter to it, keep the messages
// that it refuses. A policy of the operator may limit it, and then it would drop its oldest messages.
func (c Config) keepingArgs(more amqp.Table) amqp.Table {
	args := c.args(more)
	if c.queueType() == Quorum {
		args["x-overflow"] = "reject-publish"
	}
	return args
}

// formerArgs returns the arguments with which former releases declared a queue of keepingArgs; nil for others.
func (q queue) formerArgs() amqp.Table {
	_, deadLetters := q.args["x-dead-letter-exchange"]
	_, limited := q.args["x-max-length"]
	if _, keeps := q.args["x-overflow"]; !keeps || deadLetters || limited {
		return nil
	}
	former := maps.Clone(q.args)
	delete(former, "x-overflow")
	return former
}

// routeArgs returns the arguments of a route's queue.
func (c Config) routeArgs(r Route) amqp.Table {
	if t, ok := r.Arguments["x-queue-type"].(string); ok {
		c.QueueType = QueueType(t)
	}
	return c.args(r.Arguments)
}

// indexArgs returns the arguments of the index queues: a limit drops the oldest messages.
// If a queue has a dead-letter exchange they go there, so the queue of late copies is
// limited as well and has none.
func (c Config) indexArgs(more amqp.Table) amqp.Table {
	if c.ClassicIndex {
		c.QueueType = Classic
	}
	args := c.args(singleActiveConsumer())
	maps.Copy(args, more)
	if c.IndexLimit > 0 {
		args["x-max-length"] = c.IndexLimit
		args["x-overflow"] = "drop-head"
	}
	return args
}

// reportArgs returns the arguments of the queue of reports. A report that expires, since
// its consumer left the expiration on the message, goes to the queue of dead letters.
func (c Config) reportArgs() amqp.Table {
	args := c.args(amqp.Table{"x-dead-letter-exchange": c.Retry()})
	if c.queueType() == Quorum {
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	return args
}

// delayArgs returns the arguments of a delay queue. All its messages wait equally long, so
// none blocks another, and go to the queue of due ones, which always exists. Quorum
// queues keep a message until the next queue has confirmed it; RabbitMQ does so only
// with reject-publish, and otherwise silently not.
func (c Config) delayArgs(milliseconds int64) amqp.Table {
	args := c.args(amqp.Table{
		"x-message-ttl":             milliseconds,
		"x-dead-letter-exchange":    c.Direct(),
		"x-dead-letter-routing-key": c.Topology.Due(),
	})
	if c.queueType() == Quorum {
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish"
	}
	return args
}
