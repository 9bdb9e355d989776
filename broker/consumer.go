package broker

import (
	"slices"
	"sort"
	"time"
)

// consumer is a subscription to a queue (§3.1.2). The lock of its virtual host guards
// it.
type consumer struct {
	channel   *channel
	queue     *queue
	tag       string
	noAck     bool
	exclusive bool
	prefetch  int // 0: no limit
	priority  int64
	unacked   int
	cancelled bool
}

// hasCapacity reports whether the consumer can get one more message now.
func (c *consumer) hasCapacity() bool {
	if c.channel.ended {
		return false
	}
	if !c.noAck {
		if c.prefetch > 0 && c.unacked >= c.prefetch || !c.channel.hasPrefetchRoom() {
			return false
		}
	}
	return c.channel.conn.out.hasRoom()
}

func (c *consumer) deliver(e *entry) {
	ch, q := c.channel, c.queue
	tag := ch.lastTag + 1
	if !q.replies || !ch.vhost.rabbitmq.isBefore43() {
		ch.lastTag = tag
	}
	ch.conn.out.deliver(delivery{
		channel: ch.id, consumer: c.tag, tag: tag, redelivered: e.redelivered,
		message: e.message, header: q.headerOf(e),
	})
	q.unacked++
	if c.noAck {
		q.acknowledge(e)
		return
	}
	c.unacked++
	ch.addUnacked(unackedDelivery{tag, e, q, c})
}

// headerOf returns the properties of a message as this queue delivers them.
func (q *queue) headerOf(e *entry) []byte {
	switch {
	case !q.settings.quorum || e.acquired == 0:
		return e.message.header
	case q.vhost.rabbitmq.isBefore43():
		return e.message.redelivery(e.failures, 0)
	}
	return e.message.redelivery(e.failures, e.acquired)
}

// notifyCancelled removes a consumer whose queue was deleted, and sends basic.cancel
// (https://www.rabbitmq.com/docs/consumer-cancel).
func (c *consumer) notifyCancelled() {
	delete(c.channel.consumers, c.tag)
	if c.channel.conn.hasCapability("consumer_cancel_notify") {
		c.channel.reply(basicCancel, func(b []byte) []byte { return append(appendShortstr(b, c.tag), bit(0, true)) })
	}
}

// subscribe adds a consumer after the consumers of its priority.
func (q *queue) subscribe(c *consumer) {
	q.touch()
	q.consumers = slices.Insert(q.consumers, q.priorityEnd(c.priority), c)
	if q.active == nil {
		q.active = c
	}
	q.updateDeadline()
}

// addHolder counts one who has messages of a quorum queue and does not consume it: a cancelled
// consumer until the last of them is settled, and each message of basic.get.
func (q *queue) addHolder() {
	if q.settings.quorum {
		q.holders++
		q.updateDeadline()
	}
}

func (q *queue) removeHolder() {
	if q.settings.quorum {
		q.holders--
		q.touch()
		q.updateDeadline()
	}
}

// inUse reports whether x-expires does not count.
func (q *queue) inUse() bool { return len(q.consumers)+q.holders > 0 }

// declaredConsumers returns the number in queue.declare-ok. Consumers that wait for the single
// active one count on classic queues only.
func (q *queue) declaredConsumers() int {
	if q.settings.quorum && q.settings.singleActive {
		return min(len(q.consumers), 1) + q.holders
	}
	return len(q.consumers) + q.holders
}

// takeOver gives a new consumer of a quorum queue the messages of a cancelled one with its tag on
// its channel.
func (c *consumer) takeOver() {
	if !c.queue.settings.quorum || c.queue.holders == 0 { // which spares a long look
		return
	}
	for i, o := range c.channel.unacked.items {
		if o.entry == nil || o.queue != c.queue || o.consumer == nil || o.consumer.tag != c.tag {
			continue
		}
		c.channel.unacked.items[i].consumer = c
		c.unacked++
		o.consumer.settle()
	}
}

// settle counts a message that the consumer does not have any more.
func (c *consumer) settle() {
	c.unacked--
	if c.cancelled && c.unacked == 0 {
		c.queue.removeHolder()
	}
}

// priorityEnd returns the index of the first consumer with a lower priority.
func (q *queue) priorityEnd(priority int64) int {
	return sort.Search(len(q.consumers), func(i int) bool { return q.consumers[i].priority < priority })
}

// unsubscribe removes consumers, and an auto-delete queue with the last of them. The
// caller then calls deliverReady for the others.
func (q *queue) unsubscribe(matches func(*consumer) bool) {
	if q.deleted {
		return
	}
	before := len(q.consumers)
	q.consumers = slices.DeleteFunc(q.consumers, func(c *consumer) bool {
		if !matches(c) {
			return false
		}
		q.vhost.releaseTopology(c.bytes())
		return true
	})
	if len(q.consumers) == before {
		return
	}
	q.touch()
	if matches(q.active) {
		q.active = nil
		if len(q.consumers) > 0 {
			q.active = q.consumers[0]
		}
	}
	if q.autoDelete && len(q.consumers) == 0 {
		q.delete()
	}
}

// deliver sends ready messages to consumers with capacity, round-robin. Where now is
// not zero, it first drops messages that have expired by then.
func (q *queue) deliver(now time.Time) {
	for {
		if !now.IsZero() {
			q.dropExpired(now)
		}
		if !q.activate() || q.ready.len() == 0 {
			return
		}
		c := q.nextConsumer()
		if c == nil {
			return
		}
		c.deliver(q.ready.pop())
	}
}

// activate lets a consumer with a higher priority replace the single active one of a quorum queue, as since RabbitMQ 4.0.
// It reports false as long as the active one has messages: it gets no more, and the other none before they are settled.
func (q *queue) activate() bool {
	if !q.settings.singleActive || !q.settings.quorum || q.vhost.rabbitmq.isBefore40() ||
		len(q.consumers) == 0 || q.consumers[0].priority <= q.active.priority {
		return true
	}
	if q.active.unacked > 0 {
		return false
	}
	q.active = q.consumers[0]
	return true
}

// nextConsumer returns a consumer with capacity of the highest priority, round-robin;
// nil where none exists.
func (q *queue) nextConsumer() *consumer {
	for i, c := range q.consumers {
		if q.settings.singleActive && c != q.active || !c.hasCapacity() {
			continue
		}
		end := q.priorityEnd(c.priority)
		copy(q.consumers[i:end], q.consumers[i+1:end])
		q.consumers[end-1] = c
		return c
	}
	return nil
}
