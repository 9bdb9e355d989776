package broker

import "strings"

// replyToName is the pseudo-queue of direct reply-to
// (https://www.rabbitmq.com/docs/direct-reply-to). A channel that consumes from it gets
// a reply address, which replaces the name in the reply-to of its messages; messages
// that are published to the address are delivered to the channel. A reply address is a
// queue that only the default exchange routes to, and that is deleted with its
// consumer.
const replyToName = "amq.rabbitmq.reply-to"

func (ch *channel) consumeReplies(tag string, noAck, answer bool) *exception {
	switch {
	case !noAck:
		return newException(preconditionFailed, "reply consumer cannot acknowledge")
	case ch.hasReplyConsumer():
		return newException(preconditionFailed, "reply consumer already set")
	}
	v := ch.vhost
	q := newQueue(v, replyToName+"."+generatedID(), defaultSettings(false, v.rabbitmq), nil)
	q.autoDelete, q.replies = true, true
	if err := v.reserveTopology(q.bytes()); err != nil {
		return err
	}
	v.replies[q.name] = q
	ch.replyQueue = q
	err := ch.startConsumer(&consumer{channel: ch, queue: q, tag: tag, noAck: true}, answer)
	if err != nil {
		q.delete()
	}
	return err
}

func (ch *channel) hasReplyConsumer() bool { return ch.replyQueue != nil && !ch.replyQueue.deleted }

// setReplyAddress replaces the name of the pseudo-queue by the reply address of the
// channel.
func (ch *channel) setReplyAddress(m *message, p *properties) *exception {
	if to, _ := p.text(propReplyTo); to != replyToName {
		return nil
	}
	if !ch.hasReplyConsumer() {
		return newException(preconditionFailed, "fast reply consumer does not exist")
	}
	p.values[propReplyTo] = appendShortstr(nil, ch.replyQueue.name)
	m.header = p.encode()
	return nil
}

// deliverReplies delivers a message to reply addresses, like RabbitMQ 4.0: at once also in
// a transaction, and not as queues of a mandatory message.
func (v *vhost) deliverReplies(m *message) {
	if len(v.replies) == 0 {
		return
	}
	for _, key := range m.keys {
		if q, there := v.replies[key]; there {
			q.push(m)
		}
	}
}

func isReplyName(queue string) bool { return strings.HasPrefix(queue, replyToName) }

// isReplyAddress reports whether a passive declaration of the name succeeds.
func (v *vhost) isReplyAddress(name string) bool {
	_, there := v.replies[name]
	return there || name == replyToName
}
