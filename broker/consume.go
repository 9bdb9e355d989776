package broker

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
)

// generatedName returns a unique name in the format of RabbitMQ.
func generatedName(prefix string) string { return prefix + "-" + generatedID() }

func generatedID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// queueName resolves the queue name of a method: an empty one is the queue that the
// channel declared last.
func (ch *channel) queueName(name string) (string, *exception) {
	switch {
	case name != "":
		return name, nil
	case ch.lastQueue == "":
		return "", newException(notFound, "no previously declared queue")
	}
	return ch.lastQueue, nil
}

// usableQueue returns a queue that the channel may use.
func (ch *channel) usableQueue(name string) (*queue, *exception) {
	name, err := ch.queueName(name)
	if err != nil {
		return nil, err
	}
	q, there := ch.vhost.queues[name]
	if !there {
		return nil, ch.vhost.queueNotFound(name)
	}
	return q, ch.mayUse(q)
}

func (ch *channel) mayUse(q *queue) *exception {
	if q.owner != nil && q.owner != ch.conn {
		return q.lockedError()
	}
	return nil
}

func (ch *channel) consume(args *decoder) *exception {
	args.short()
	name, tag, flags := args.shortstr(), args.shortstr(), args.bits()
	arguments, err := args.arguments()
	if err != nil {
		return err
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if _, there := ch.consumers[tag]; there {
		return newException(notAllowed, "attempt to reuse consumer tag '%s'", tag)
	}
	if name == replyToName {
		return ch.consumeReplies(tag, flags.at(1), !flags.at(3))
	}
	q, err := ch.usableQueue(name)
	if err == nil {
		err = ch.mayConsume(q, flags.at(2))
	}
	if err != nil {
		return err
	}
	c := &consumer{channel: ch, queue: q, tag: tag, noAck: flags.at(1), exclusive: flags.at(2), prefetch: ch.prefetch}
	if c.priority, err = q.consumerPriority(arguments); err != nil {
		return err
	}
	return ch.startConsumer(c, !flags.at(3))
}

// startConsumer adds a consumer. It sends consume-ok before the first delivery.
func (ch *channel) startConsumer(c *consumer, answer bool) *exception {
	if c.tag == "" {
		c.tag = generatedName("amq.ctag")
	}
	if err := ch.vhost.reserveTopology(c.bytes()); err != nil {
		return err
	}
	if answer {
		ch.reply(basicConsumeOK, func(b []byte) []byte { return appendShortstr(b, c.tag) })
	}
	ch.consumers[c.tag] = c
	c.takeOver()
	c.queue.subscribe(c)
	c.queue.deliverReady()
	return nil
}

// mayConsume returns an error where the queue refuses another consumer. Quorum queues
// ignore that a consumer asks to be the only one, like RabbitMQ.
func (ch *channel) mayConsume(q *queue, exclusive bool) *exception {
	switch {
	case q.settings.quorum && ch.globalPrefetch > 0:
		return newException(notImplemented, "%s does not support global qos", q.description())
	case q.settings.quorum:
		return nil
	case exclusive && (len(q.consumers) > 0 || q.settings.singleActive), len(q.consumers) > 0 && q.consumers[0].exclusive:
		return newException(accessRefused, "%s in exclusive use", q.description())
	}
	return nil
}

func (q *queue) consumerPriority(args table) (int64, *exception) {
	f, there := args.lookup("x-priority")
	if !there {
		return 0, nil
	}
	priority, isInteger := f.integer()
	if !isInteger {
		return 0, newException(preconditionFailed, "invalid arg 'x-priority' for %s: %s", q.description(), integerExpected(f))
	}
	return priority, nil
}

func (ch *channel) cancel(args *decoder) *exception {
	tag, flags := args.shortstr(), args.bits()
	if args.bad {
		return truncatedArguments()
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if c, there := ch.consumers[tag]; there {
		delete(ch.consumers, tag)
		if c.cancelled = true; c.unacked > 0 {
			c.queue.addHolder()
		}
		c.queue.unsubscribe(func(other *consumer) bool { return other == c })
		c.queue.deliverReady()
	}
	if !flags.at(0) {
		ch.reply(basicCancelOK, func(b []byte) []byte { return appendShortstr(b, tag) })
	}
	return nil
}

// qos sets the prefetch of new consumers or, with global, of the channel
// (https://www.rabbitmq.com/docs/consumer-prefetch). RabbitMQ 4.3 has no prefetch of the
// channel, and takes it for the one of consumers.
func (ch *channel) qos(args *decoder) *exception {
	size, count, flags := args.long(), int(args.short()), args.bits()
	switch {
	case args.bad:
		return truncatedArguments()
	case size != 0:
		return newException(notImplemented, "prefetch_size!=0 (%d)", size)
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	if flags.at(0) && ch.vhost.rabbitmq.isBefore43() {
		ch.globalPrefetch = count
	} else {
		ch.prefetch, ch.globalPrefetch = count, 0
	}
	ch.reply(basicQosOK, nil)
	ch.vhost.rounds++
	ch.deliverToConsumers()
	return nil
}

func (ch *channel) get(args *decoder) *exception {
	args.short()
	name, flags := args.shortstr(), args.bits()
	if args.bad {
		return truncatedArguments()
	}
	ch.vhost.lock()
	defer ch.vhost.unlock()
	q, err := ch.queueForGet(name)
	if err != nil {
		return err
	}
	e := q.get()
	if e == nil {
		ch.reply(basicGetEmpty, func(b []byte) []byte { return appendShortstr(b, "") })
		return nil
	}
	ch.replyGet(q, e, flags.at(0))
	return nil
}

// queueForGet returns a queue that the channel may use with basic.get.
func (ch *channel) queueForGet(name string) (*queue, *exception) {
	q, err := ch.usableQueue(name)
	if err == nil && q.settings.quorum && q.settings.singleActive {
		kind := `<<"quorum">>` // as RabbitMQ 4.3 prints it
		if ch.vhost.rabbitmq.isBefore43() {
			kind = "quorum"
		}
		err = newException(resourceLocked, "cannot obtain access to locked %s. basic.get operations "+
			"are not supported by %s queues with single active consumer", q.description(), kind)
	}
	return q, err
}

func (ch *channel) replyGet(q *queue, e *entry, noAck bool) {
	tag, m := ch.nextTag(), e.message
	args := func(b []byte) []byte {
		b = append(binary.BigEndian.AppendUint64(b, tag), bit(0, e.redelivered))
		b = appendShortstr(appendShortstr(b, m.exchange), m.key())
		return binary.BigEndian.AppendUint32(b, uint32(q.ready.len()))
	}
	ch.conn.out.content(ch.id, basicGetOK, args, q.headerOf(e), m.body)
	if noAck {
		q.acknowledge(e)
		return
	}
	ch.addUnacked(unackedDelivery{tag, e, q, nil})
	q.addHolder()
}
