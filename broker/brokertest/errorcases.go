package brokertest

import (
	amqp "github.com/rabbitmq/amqp091-go"
)

func errorCases() []behaviour {
	return []behaviour{
		{name: "a channel error ends the channel only", check: channelErrorKeepsConnection},
		{name: "a closed channel's number is used again", check: channelNumberReuse},
		{name: "what follows a channel error is ignored", check: framesAfterChannelError},
		{name: "the cause is named", check: closeNamesCause},
		{name: "channel not open", check: channelNotOpen},
		{name: "channel opened twice", check: channelOpenedTwice},
		{name: "too many channels", check: tooManyChannels},
		{name: "unknown exchange type", since: "4.0", check: unknownExchangeType},
		{name: "an alternate exchange that is a number", check: numericAlternateExchange},
		{name: "flow off is not implemented", check: flowOff},
		{name: "flow on is fine", check: func(p *probe) { p.must(p.ch.Flow(true)) }},
		{name: "closing the connection closes its channels", check: connectionCloseClosesChannels},
	}
}

func channelErrorKeepsConnection(p *probe) {
	bad := p.channel()
	_, err := bad.QueueDeclarePassive(p.name(), true, false, false, false, nil)
	if err == nil {
		p.Fatal("no error")
	}
	p.queue(nil) // on another channel
	p.channel()
}

func channelNumberReuse(p *probe) {
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 50, 10, "short", 0, "shortstr", p.name(), "octet", 1, "table", "")
	code, _ := w.readClose(1)
	p.wantEqual("code", code, 404)
	w.openChannel(1)
	w.send(1, 20, 40, "short", 200, "shortstr", "bye", "short", 0, "short", 0)
	w.expect(1, 20, 41)
	w.openChannel(1)
}

func framesAfterChannelError(p *probe) {
	q := p.queue(nil)
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 60, 80, "longlong", 5, "octet", 0) // an unknown tag
	w.publish(1, q, "\x00\x00", "lost")
	code, text := w.readClose(1)
	p.wantEqual("code", code, 406)
	p.wantEqual("text", text, "PRECONDITION_FAILED - unknown delivery tag 5")
	p.expectEmpty(q)
}

func closeNamesCause(p *probe) {
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 60, 80, "longlong", 5, "octet", 0)
	args := w.expect(1, 20, 40)
	p.wantEqual("class and method", args[len(args)-4:], []byte{0, 60, 0, 80})
}

func channelNotOpen(p *probe) {
	w := p.openRaw()
	w.send(3, 50, 10, "short", 0, "shortstr", "q", "octet", 1, "table", "")
	code, text := w.readClose(0)
	p.wantEqual("exception", []any{code, text}, []any{504, "CHANNEL_ERROR - expected 'channel.open'"})
}

func channelOpenedTwice(p *probe) {
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 20, 10, "octet", 0)
	code, text := w.readClose(0)
	p.wantEqual("exception", []any{code, text}, []any{504, "CHANNEL_ERROR - second 'channel.open' seen"})
}

func tooManyChannels(p *probe) {
	conn := p.target.connect(p.T, amqp.Config{ChannelMax: 2})
	defer conn.Close()
	for range 2 {
		_, err := conn.Channel()
		p.must(err)
	}
	w := p.openRaw() // negotiated 100
	for id := range uint16(100) {
		w.openChannel(id + 1)
	}
	w.send(101, 20, 10, "octet", 0)
	code, text := w.readClose(0)
	p.wantEqual("exception", []any{code, text}, []any{530, "NOT_ALLOWED - number of channels opened (100) has reached the negotiated channel_max (100)"})
}

func unknownExchangeType(p *probe) {
	kind := p.name() // RabbitMQ reports a word that it has seen before as "invalid"
	err := p.ch.ExchangeDeclare(p.name(), kind, true, false, false, false, nil)
	p.expectError(err, 406, "PRECONDITION_FAILED - unknown exchange type '"+kind+"'")
	err = p.channel().ExchangeDeclare(p.name(), "", true, false, false, false, nil)
	p.expectError(err, 406, "PRECONDITION_FAILED - invalid exchange type ''")
}

func numericAlternateExchange(p *probe) {
	x := p.name()
	err := p.ch.ExchangeDeclare(x, "fanout", true, false, false, false, amqp.Table{"alternate-exchange": int32(1)})
	p.expectError(err, 406, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in "+p.exchangeDescription(x))
}

func flowOff(p *probe) {
	p.expectConnectionClose(540, "NOT_IMPLEMENTED - active=false", func(conn *amqp.Connection) {
		ch, err := conn.Channel()
		p.must(err)
		_ = ch.Flow(false)
	})
}

func connectionCloseClosesChannels(p *probe) {
	o := p.newConnection()
	q := p.queue(nil)
	deliveries := o.consume(o.ch, q)
	p.must(o.conn.Close())
	if _, open := <-deliveries; open {
		p.Error("a delivery after close")
	}
	state, err := p.ch.QueueDeclarePassive(q, true, false, false, false, nil)
	p.must(err)
	p.wantEqual("consumers", state.Consumers, 0)
}
