package broker

import "encoding/binary"

// channel is a channel of a connection (§2.2.5). The reader goroutine calls it; the
// lock of the virtual host guards the fields that deliveries use.
type channel struct {
	conn  *connection
	vhost *vhost
	id    uint16

	// Used by the reader only.
	closing   bool // channel.close is sent; only close and close-ok are handled
	lastQueue string
	incoming  incoming
	confirms  confirms
	tx        *transaction // nil: not in transaction mode; other goroutines read it under the lock of the virtual host

	// Guarded by the lock of the virtual host.
	consumers      map[string]*consumer
	unacked        unackedList
	lastTag        uint64
	prefetch       int    // of each new consumer; 0: no limit
	globalPrefetch int    // of all consumers together; 0: no limit
	prefetchUsed   int    // deliveries that count towards globalPrefetch
	ended          bool   // closed: its consumers get no deliveries
	replyQueue     *queue // of its newest reply consumer; nil before the first
}

func newChannel(c *connection, id uint16) *channel {
	return &channel{conn: c, vhost: c.vhost, id: id, consumers: map[string]*consumer{}}
}

// handleFrame handles a frame. Its error closes the channel or the connection, with the
// method that caused it.
func (ch *channel) handleFrame(f frame) (cause methodID, err *exception) {
	switch {
	case ch.closing:
		ch.handleFrameClosing(f)
		return 0, nil
	case ch.incoming.state != awaitingMethod:
		return basicPublish, ch.handleContent(f)
	case f.kind != frameMethod:
		return 0, newException(unexpectedFrame, "expected method frame, got non method frame instead")
	}
	id, args, err := parseMethod(f)
	if err == nil {
		err = ch.handleMethodWithFaults(id, &args)
	}
	if args.bad {
		err = undecodableMethod(f)
	}
	return id, err
}

// handleFrameClosing ignores all frames but the answer to channel.close, since the
// client may have sent many before it reads that.
func (ch *channel) handleFrameClosing(f frame) {
	id, _, err := parseMethod(f)
	if f.kind != frameMethod || err != nil {
		return
	}
	switch id {
	case channelClose:
		ch.reply(channelCloseOK, nil)
	case channelCloseOK:
		ch.remove()
	}
}

func (ch *channel) remove() {
	ch.vhost.lock()
	defer ch.vhost.unlock()
	delete(ch.conn.channels, ch.id)
}

// closeWithError closes the channel with an error that a method caused.
func (ch *channel) closeWithError(e *exception, cause methodID) {
	ch.end()
	ch.closing = true
	ch.reply(channelClose, closeArguments(e, cause))
}

// end requeues messages and removes consumers, before either side reports the channel
// as closed.
func (ch *channel) end() {
	ch.sendConfirms()
	ch.dropContent()
	ch.vhost.lock()
	defer ch.vhost.unlock()
	ch.vhost.release(ch)
}

func (ch *channel) reply(id methodID, args func([]byte) []byte) { ch.conn.out.method(ch.id, id, args) }

// handleMethod handles a method. Methods of the specification that RabbitMQ does not
// have get the error that RabbitMQ gives.
func (ch *channel) handleMethod(id methodID, args *decoder) *exception {
	switch id.class() {
	case channelOpen.class():
		return ch.handleChannelMethod(id, args)
	case exchangeDeclare.class():
		return ch.handleExchangeMethod(id, args)
	case queueDeclare.class():
		return ch.handleQueueMethod(id, args)
	case classBasic:
		return ch.handleBasicMethod(id, args)
	case txSelect.class():
		return ch.handleTxMethod(id)
	}
	switch id {
	case confirmSelect:
		return ch.confirmSelect(args)
	case accessRequest: // of AMQP 0-8; every client has all permissions
		ch.reply(accessRequestOK, func(b []byte) []byte { return binary.BigEndian.AppendUint16(b, 1) })
		return nil
	}
	return unknownMethod(id)
}

func unknownMethod(id methodID) *exception {
	return newException(commandInvalid, "unknown method %v", id)
}

// truncatedArguments is the error of a method whose arguments are too short;
// undecodableMethod adds the text.
func truncatedArguments() *exception { return newException(frameErrorCode, "cannot decode") }

func undecodableMethod(f frame) *exception {
	return newException(frameErrorCode, "cannot decode %s", octets(f.payload[4:]))
}

func (ch *channel) handleChannelMethod(id methodID, args *decoder) *exception {
	switch id {
	case channelOpen:
		return newException(channelError, "second 'channel.open' seen")
	case channelClose:
		ch.end()
		ch.remove()
		ch.reply(channelCloseOK, nil)
		return nil
	case channelFlow:
		if !args.bits().at(0) {
			return newException(notImplemented, "active=false")
		}
		ch.reply(channelFlowOK, func(b []byte) []byte { return append(b, 1) })
		return nil
	case channelFlowOK, channelCloseOK:
		return nil
	}
	return unknownMethod(id)
}

func (ch *channel) handleExchangeMethod(id methodID, args *decoder) *exception {
	switch id {
	case exchangeDeclare:
		return ch.exchangeDeclare(args)
	case exchangeDelete:
		return ch.exchangeDelete(args)
	case exchangeBind:
		return ch.exchangeBind(args, exchangeBindOK, ch.vhost.bind)
	case exchangeUnbind:
		return ch.exchangeBind(args, exchangeUnbindOK, ch.vhost.unbindExisting)
	}
	return unknownMethod(id)
}

func (ch *channel) handleQueueMethod(id methodID, args *decoder) *exception {
	switch id {
	case queueDeclare:
		return ch.queueDeclare(args)
	case queueDelete:
		return ch.queueDelete(args)
	case queuePurge:
		return ch.queuePurge(args)
	case queueBind:
		return ch.queueBind(args)
	case queueUnbind:
		return ch.queueUnbind(args)
	}
	return unknownMethod(id)
}

func (ch *channel) handleBasicMethod(id methodID, args *decoder) *exception {
	switch id {
	case basicPublish:
		return ch.beginPublish(args)
	case basicAck:
		return ch.ack(args)
	case basicNack:
		return ch.nack(args)
	case basicReject:
		return ch.reject(args)
	case basicGet:
		return ch.get(args)
	case basicConsume:
		return ch.consume(args)
	case basicCancel:
		return ch.cancel(args)
	case basicQos:
		return ch.qos(args)
	case basicRecover, basicRecoverAsync:
		return ch.recover(id, args)
	}
	return unknownMethod(id)
}
