package broker

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// incoming is a message that a client is publishing: a method, a content header and
// body frames, in this order (§4.2.6).
type incoming struct {
	state        incomingState
	exchange     string
	key          string
	mandatory    bool
	header       []byte
	body         []byte
	remaining    uint64 // bytes of the body that have not arrived
	size         uint64
	countedBytes int64 // bytes that were counted as unfinished
}

type incomingState int

const (
	awaitingMethod incomingState = iota
	awaitingHeader
	awaitingBody
)

func (ch *channel) beginPublish(args *decoder) *exception {
	args.short()
	exchange := args.take(int(args.octet()))
	key, flags := args.shortstr(), args.bits()
	if args.bad {
		return truncatedArguments()
	}
	if flags.at(1) {
		return newException(notImplemented, "immediate=true")
	}
	if string(exchange) != ch.incoming.exchange { // a copy only where it changes, which is rare
		ch.incoming.exchange = string(exchange)
	}
	ch.incoming.key, ch.incoming.mandatory = key, flags.at(0)
	ch.incoming.state = awaitingHeader
	return nil
}

func (ch *channel) handleContent(f frame) *exception {
	in := &ch.incoming
	switch {
	case in.state == awaitingHeader && f.kind == frameHeader:
		return ch.handleContentHeader(f.payload)
	case in.state == awaitingBody && f.kind == frameBody:
		return ch.handleContentBody(f.payload)
	case in.state == awaitingHeader:
		return newException(unexpectedFrame, "expected content header for class %d, got non content header frame instead", classBasic)
	}
	return newException(unexpectedFrame, "expected content body, got non content body frame instead")
}

func (ch *channel) handleContentHeader(payload []byte) *exception {
	in, d := &ch.incoming, decoder{rest: payload}
	class, _ := d.short(), d.short()
	in.size = d.longlong()
	in.remaining = in.size
	switch {
	case d.bad:
		return newException(syntaxError, "content header cannot be read")
	case class != classBasic:
		return newException(unexpectedFrame, "expected content header for class %d, got one for class %d instead", classBasic, class)
	}
	in.header = bytes.Clone(d.rest)
	in.body = nil
	in.state = awaitingBody
	ch.countUnfinished(len(in.header))
	return ch.publishComplete()
}

// handleContentBody appends a body frame. The frames of a message that is too large are
// read and dropped.
func (ch *channel) handleContentBody(payload []byte) *exception {
	in := &ch.incoming
	if uint64(len(payload)) > in.remaining {
		return newException(unexpectedFrame, "content body is longer than its header said")
	}
	in.remaining -= uint64(len(payload))
	if ch.isTooLarge() {
		return ch.publishComplete()
	}
	in.body = append(in.body, payload...)
	ch.countUnfinished(len(payload))
	return ch.publishComplete()
}

func (ch *channel) isTooLarge() bool {
	return ch.incoming.size > uint64(ch.vhost.limits.MessageSize)
}

// publishComplete publishes the message if all of its frames have arrived.
func (ch *channel) publishComplete() *exception {
	in := &ch.incoming
	if in.remaining > 0 {
		return nil
	}
	defer ch.dropContent()
	ch.uncountUnfinished()
	if ch.isTooLarge() {
		return ch.messageTooLarge()
	}
	if ch.conn.broker.hasFaults.Load() {
		return ch.applyFault(basicPublish, decoder{}, ch.publish)
	}
	return ch.publish()
}

func (ch *channel) messageTooLarge() *exception {
	return newException(preconditionFailed, "message size %d is larger than configured max size %d",
		ch.incoming.size, ch.vhost.limits.MessageSize)
}

// dropContent drops an unfinished message.
func (ch *channel) dropContent() {
	ch.uncountUnfinished()
	in := &ch.incoming
	in.header, in.body, in.state = nil, nil, awaitingMethod
}

// countUnfinished counts bytes of a message whose rest has not arrived.
func (ch *channel) countUnfinished(bytes int) {
	if ch.incoming.remaining > 0 {
		ch.incoming.countedBytes += int64(bytes)
		ch.vhost.memory.addUnfinished(int64(bytes))
	}
}

// uncountUnfinished undoes countUnfinished. Queues count the message later.
func (ch *channel) uncountUnfinished() {
	if ch.incoming.countedBytes > 0 {
		ch.vhost.memory.addUnfinished(-ch.incoming.countedBytes)
		ch.incoming.countedBytes = 0
	}
}

func (ch *channel) publish() *exception {
	ch.vhost.lock()
	defer ch.vhost.unlock()
	p, err := ch.routeIncoming()
	if err != nil {
		return err
	}
	return ch.publishRouted(p)
}

// publishRouted enqueues a message, in a transaction at its commit.
func (ch *channel) publishRouted(p routed) *exception {
	if ch.tx != nil {
		p.targets = slices.Clone(p.targets)
		return ch.tx.add(p, ch.vhost.memory)
	}
	ch.confirmPublish(ch.enqueue(p))
	return nil
}

// routeIncoming returns the message with its queues, which are valid until the next
// routing.
func (ch *channel) routeIncoming() (routed, *exception) {
	in, v := &ch.incoming, ch.vhost
	x, there := v.exchanges[in.exchange]
	switch {
	case !there:
		return routed{}, v.exchangeNotFound(in.exchange)
	case x.internal:
		return routed{}, newException(accessRefused, "cannot publish to internal %s", v.exchangeDescription(x.name))
	}
	m, err := ch.newMessage()
	if err != nil {
		return routed{}, err
	}
	p := routed{m, v.route(x, m), in.mandatory}
	if x.name == "" && v.rabbitmq.isBefore43() {
		v.deliverReplies(m)
	}
	return p, nil
}

// enqueue appends a message to its queues. It returns false where one of them rejects
// it.
func (ch *channel) enqueue(p routed) (accepted bool) {
	if p.mandatory && len(p.targets) == 0 {
		ch.returnMessage(p.message)
	}
	accepted = true
	for _, q := range p.targets {
		accepted = (q.deleted || q.push(p.message)) && accepted
	}
	return accepted
}

// newMessage returns the message after the checks of RabbitMQ on its properties.
func (ch *channel) newMessage() (*message, *exception) {
	in := &ch.incoming
	p, err := parseProperties(in.header)
	if err != nil {
		return nil, err
	}
	m := &message{exchange: in.exchange, header: in.header, body: in.body}
	if m.ttl, err = p.expiration(); err != nil {
		return nil, err
	}
	cc, bcc, err := p.headerRoutes()
	if err != nil {
		return nil, err
	}
	if user, there := p.text(propUserID); there && user != ch.conn.user {
		return nil, newException(preconditionFailed, "user_id property set to '%s' but authenticated user was '%s'", user, ch.conn.user)
	}
	if err := ch.setReplyAddress(m, &p); err != nil {
		return nil, err
	}
	m.keys, m.bcc = append(append([]string{in.key}, cc...), bcc...), len(bcc)
	if _, there := p.headers().lookup("BCC"); there {
		p.setHeaders(p.headers().without("BCC"))
		m.header = p.encode()
	}
	return m, nil
}

// returnMessage returns an unroutable mandatory message (§1.8.3.4). basic.return
// precedes the confirm.
func (ch *channel) returnMessage(m *message) {
	args := func(b []byte) []byte {
		b = binary.BigEndian.AppendUint16(b, noRoute)
		b = appendShortstr(b, codeName(noRoute))
		return appendShortstr(appendShortstr(b, m.exchange), m.key())
	}
	ch.conn.out.content(ch.id, basicReturn, args, m.header, m.body)
}
