package broker

import "encoding/binary"

// channel is one of a connection's channels (§2.2.5). The reader calls it; what
// deliveries touch is guarded by the vhost's lock.
type channel struct {
	conn  *connection
	vhost *vhost
	id    uint16

	// Of the reader only.
	closing   bool // channel.close is sent; only its answer counts
	lastQueue string
	incoming  incoming
	confirms  confirms
	tx        *transaction // nil: not in transaction mode; guarded by the vhost's lock for others

	// Guarded by the vhost's lock.
	consumers  map[string]*consumer
	unacked    ledger
	tags       uint64 // the last delivery tag given
	prefetch   int    // of consumers to come; 0: no limit
	limit      int    // of all consumers together; 0: none
	charged    int    // outstanding deliveries that count towards the limit
	ended      bool   // its consumers take nothing more
	replyQueue *queue // nil, or the one that its replies came to last
}

func newChannel(c *connection, id uint16) *channel {
	return &channel{conn: c, vhost: c.vhost, id: id, consumers: map[string]*consumer{}}
}

// take does what a frame asks. Its error is to close the channel or the
// connection, because of the method.
func (ch *channel) take(f frame) (cause methodID, err *exception) {
	switch {
	case ch.closing:
		ch.takeClosing(f)
		return 0, nil
	case ch.incoming.state != awaitingMethod:
		return basicPublish, ch.takeContent(f)
	case f.kind != frameMethod:
		return 0, fail(unexpectedFrame, "expected method frame, got non method frame instead")
	}
	id, args, err := parseMethod(f)
	if err == nil {
		err = ch.doWithFaults(id, &args)
	}
	if args.bad {
		err = undecodable(f)
	}
	return id, err
}

// takeClosing waits for the client to answer channel.close; it may have sent much
// before it saw it.
func (ch *channel) takeClosing(f frame) {
	id, _, err := parseMethod(f)
	if f.kind != frameMethod || err != nil {
		return
	}
	switch id {
	case channelClose:
		ch.reply(channelCloseOK, nil)
	case channelCloseOK:
		ch.forget()
	}
}

func (ch *channel) forget() {
	ch.vhost.lock()
	defer ch.vhost.unlock()
	delete(ch.conn.channels, ch.id)
}

// fail closes the channel with an error that a method caused.
func (ch *channel) fail(e *exception, cause methodID) {
	ch.shut()
	ch.closing = true
	ch.reply(channelClose, closeArguments(e, cause))
}

// shut ends what the channel does, before either side says that it is closed.
func (ch *channel) shut() {
	ch.sendConfirms()
	ch.abandonContent()
	ch.vhost.lock()
	defer ch.vhost.unlock()
	ch.vhost.release(ch)
}

func (ch *channel) reply(id methodID, args func([]byte) []byte) { ch.conn.out.method(ch.id, id, args) }

// do does what a method asks. Methods of the specification that RabbitMQ does not
// have get what it says of them.
func (ch *channel) do(id methodID, args *decoder) *exception {
	switch id.class() {
	case channelOpen.class():
		return ch.doChannel(id, args)
	case exchangeDeclare.class():
		return ch.doExchange(id, args)
	case queueDeclare.class():
		return ch.doQueue(id, args)
	case classBasic:
		return ch.doBasic(id, args)
	case txSelect.class():
		return ch.doTransaction(id)
	}
	switch id {
	case confirmSelect:
		return ch.confirmSelect(args)
	case accessRequest: // of AMQP 0-8; every client may do everything
		ch.reply(accessRequestOK, func(b []byte) []byte { return binary.BigEndian.AppendUint16(b, 1) })
		return nil
	}
	return unknownMethod(id)
}

func unknownMethod(id methodID) *exception {
	return fail(commandInvalid, "unknown method %v", id)
}

// errShort ends a method whose arguments end too early; undecodable words it.
func errShort() *exception { return fail(frameErrorCode, "cannot decode") }

func undecodable(f frame) *exception {
	return fail(frameErrorCode, "cannot decode %s", octets(f.payload[4:]))
}

func (ch *channel) doChannel(id methodID, args *decoder) *exception {
	switch id {
	case channelOpen:
		return fail(channelError, "second 'channel.open' seen")
	case channelClose:
		ch.shut()
		ch.forget()
		ch.reply(channelCloseOK, nil)
		return nil
	case channelFlow:
		if !args.bits().at(0) {
			return fail(notImplemented, "active=false")
		}
		ch.reply(channelFlowOK, func(b []byte) []byte { return append(b, 1) })
		return nil
	case channelFlowOK, channelCloseOK:
		return nil
	}
	return unknownMethod(id)
}

func (ch *channel) doExchange(id methodID, args *decoder) *exception {
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

func (ch *channel) doQueue(id methodID, args *decoder) *exception {
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

func (ch *channel) doBasic(id methodID, args *decoder) *exception {
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
