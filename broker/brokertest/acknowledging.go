package brokertest

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

func acknowledging() []behaviour {
	return []behaviour{
		{name: "multiple", check: acknowledgeMultiple},
		{name: "multiple with tag 0 is everything", check: acknowledgeAllWithTag0},
		{name: "unknown tag", check: acknowledgeUnknownTag},
		{name: "a tag settled twice", check: acknowledgeTwice},
		{name: "requeue to where it was", check: requeueToPosition},
		{name: "a quorum queue puts what is given back at its end", until: "4.0", check: givenBackToTheEndOfQuorum},
		{name: "a quorum queue keeps the order of giving back", since: "4.0", check: requeueOrderOfQuorum},
		{name: "nack multiple, requeue", check: nackMultipleWithRequeue},
		{name: "reject without requeue drops", check: rejectWithoutRequeue},
		{name: "redelivered", check: redeliveredFlag},
		{name: "classic queues count no deliveries", check: noDeliveryCountOfClassic},
		{name: "a closed channel gives back", check: closedChannelRequeues},
		{name: "a lost connection gives back", check: lostConnectionRequeues},
		{name: "recover gives everything back", check: recoverRequeues},
		{name: "recover without requeue is not implemented", check: recoverWithoutRequeue},
		{name: "giving back at the maximum length drops the oldest", check: requeueAtMaxLength},
	}
}

func acknowledgeMultiple(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b", "c", "d")
	ch := p.channel()
	deliveries := p.consume(ch, q)
	receive(p, deliveries)
	receive(p, deliveries)
	p.must(receive(p, deliveries).Ack(true))
	receive(p, deliveries)
	p.must(ch.Close())
	p.wantEqual("left", p.bodies(q, 1), []string{"d"})
	p.expectEmpty(q)
}

func acknowledgeAllWithTag0(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b")
	ch := p.channel()
	p.getWith(ch, q, false)
	p.getWith(ch, q, false)
	p.must(ch.Ack(0, true))
	p.must(ch.Close())
	p.expectEmpty(q)
}

func acknowledgeUnknownTag(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a")
	for tag, f := range map[uint64]func(*amqp.Channel){
		7: func(ch *amqp.Channel) { _ = ch.Ack(7, false) },
		8: func(ch *amqp.Channel) { _ = ch.Nack(8, true, true) },
		9: func(ch *amqp.Channel) { _ = ch.Reject(9, false) },
		0: func(ch *amqp.Channel) { _ = ch.Ack(0, false) },
	} {
		p.expectChannelClose(406, fmt.Sprintf("PRECONDITION_FAILED - unknown delivery tag %d", tag), f)
	}
}

func acknowledgeTwice(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a")
	p.expectChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 1", func(ch *amqp.Channel) {
		d := p.getWith(ch, q, false)
		_ = d.Ack(false)
		_ = ch.Ack(1, true)
	})
}

func requeueToPosition(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b", "c", "d")
	a, b := p.getWith(p.ch, q, false), p.getWith(p.ch, q, false)
	p.must(b.Nack(false, true))
	p.must(a.Nack(false, true))
	p.wantEqual("order", p.bodies(q, 4), []string{"a", "b", "c", "d"})
}

func givenBackToTheEndOfQuorum(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishTexts(q, "a", "b", "c", "d", "e")
	a, b, c := p.getWith(p.ch, q, false), p.getWith(p.ch, q, false), p.getWith(p.ch, q, false)
	p.must(b.Nack(false, true))
	p.must(a.Nack(false, true))
	p.must(c.Reject(true))
	p.awaitReady(q, 5)
	p.wantEqual("order", p.bodies(q, 5), []string{"d", "e", "b", "a", "c"})
	p.publishTexts(q, "a", "b", "c")
	ch := p.channel()
	p.getWith(ch, q, false)
	p.must(p.getWith(ch, q, false).Nack(true, true))
	p.awaitReady(q, 3)
	p.wantEqual("order of one nack of two", p.bodies(q, 3), []string{"c", "a", "b"})
}

func requeueOrderOfQuorum(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishTexts(q, "a", "b", "c", "d")
	a, b := p.getWith(p.ch, q, false), p.getWith(p.ch, q, false)
	p.must(b.Nack(false, true))
	p.must(a.Nack(false, true))
	p.wantEqual("order", p.bodies(q, 4), []string{"b", "a", "c", "d"})
}

func nackMultipleWithRequeue(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b", "c")
	ch := p.channel()
	p.getWith(ch, q, false)
	p.must(p.getWith(ch, q, false).Nack(true, true))
	p.awaitReady(q, 3)
	p.wantEqual("order", p.bodies(q, 3), []string{"a", "b", "c"})
}

func rejectWithoutRequeue(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b")
	p.must(p.getWith(p.ch, q, false).Reject(false))
	p.wantEqual("left", p.bodies(q, 1), []string{"b"})
	p.expectEmpty(q)
}

func redeliveredFlag(p *probe) {
	for _, args := range []amqp.Table{nil, {"x-queue-type": "quorum"}} {
		q := p.queue(args)
		p.publishTexts(q, "a")
		d := p.getWith(p.ch, q, false)
		p.wantEqual("the first time", d.Redelivered, false)
		p.must(d.Reject(true))
		p.wantEqual("the second time", p.get(q).Redelivered, true)
	}
}

func noDeliveryCountOfClassic(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a")
	p.must(p.getWith(p.ch, q, false).Reject(true))
	p.wantEqual("headers", len(p.get(q).Headers), 0)
}

func closedChannelRequeues(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b")
	ch := p.channel()
	p.getWith(ch, q, false)
	p.must(ch.Close())
	p.awaitReady(q, 2) // the queue hears of the end of a channel after its client
	d := p.get(q)
	p.wantEqual("body and redelivered", []any{string(d.Body), d.Redelivered}, []any{"a", true})
}

func lostConnectionRequeues(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a")
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 60, 70, "short", 0, "shortstr", q, "octet", 0)
	class, method, _ := w.method(1)
	p.wantEqual("method", []uint16{class, method}, []uint16{60, 71})
	w.conn.Close()
	p.wantEqual("redelivered", p.get(q).Redelivered, true)
}

func recoverRequeues(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b")
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 60, 20, "short", 0, "shortstr", q, "shortstr", "t", "octet", 0, "table", "")
	w.expect(1, 60, 21)
	for _, redelivered := range []byte{0, 0, 1, 1} {
		args := w.expect(1, 60, 60)
		p.wantEqual("redelivered", args[len("\x01t")+8], redelivered)
		w.read() // header
		w.read() // body
		if args[len("\x01t")+7] == 2 {
			w.send(1, 60, 110, "octet", 1)
			w.expect(1, 60, 111)
		}
	}
}

func recoverWithoutRequeue(p *probe) {
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 60, 110, "octet", 0)
	code, text := w.readClose(0)
	p.wantEqual("exception", []any{code, text}, []any{540, "NOT_IMPLEMENTED - requeue=false"})
}

func requeueAtMaxLength(p *probe) {
	q := p.queue(amqp.Table{"x-max-length": int32(1)})
	p.publishTexts(q, "a")
	d := p.getWith(p.ch, q, false)
	p.publishTexts(q, "b")
	p.must(d.Nack(false, true))
	p.awaitReady(q, 1)
	p.wantEqual("left", p.bodies(q, 1), []string{"b"})
}
