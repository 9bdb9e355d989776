package broker

import "strings"

// Direct reply-to (https://www.rabbitmq.com/docs/direct-reply-to): who consumes
// from the pseudo-queue amq.rabbitmq.reply-to gets the answers to what it publishes
// with that name as its reply-to, which becomes an address that the default exchange
// knows. An address is a queue that nothing else can name, and that ends with its
// consumer.
const replyToName = "amq.rabbitmq.reply-to"

func (ch *channel) consumeReplies(tag string, noAck, answer bool) *exception {
	switch {
	case !noAck:
		return fail(preconditionFailed, "reply consumer cannot acknowledge")
	case ch.awaitsReplies():
		return fail(preconditionFailed, "reply consumer already set")
	}
	v := ch.vhost
	q := newQueue(v, replyToName+"."+generatedID(), defaultSettings(false), nil)
	q.autoDelete, q.replies = true, true
	if err := v.charge(q.weight()); err != nil {
		return err
	}
	v.replies[q.name] = q
	ch.replyQueue = q
	return ch.begin(&consumer{channel: ch, queue: q, tag: tag, noAck: true}, answer)
}

func (ch *channel) awaitsReplies() bool { return ch.replyQueue != nil && !ch.replyQueue.deleted }

// addressReplies puts the channel's address in place of the pseudo-queue's name.
func (ch *channel) addressReplies(m *message, p *properties) *exception {
	if to, _ := p.text(propReplyTo); to != replyToName {
		return nil
	}
	if !ch.awaitsReplies() {
		return fail(preconditionFailed, "fast reply consumer does not exist")
	}
	p.values[propReplyTo] = appendShortstr(nil, ch.replyQueue.name)
	m.header = p.encode()
	return nil
}

// answer delivers a message that was published to addresses. They do not count as
// queues that it is routed to.
func (v *vhost) answer(m *message) {
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

// knowsReplyName reports whether such a name can be published to, by this channel
// or by any.
func (v *vhost) knowsReplyName(name string) bool {
	_, there := v.replies[name]
	return there || name == replyToName
}
