package brokertest

import (
	"context"
	"encoding/binary"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

func publishing() []behaviour {
	return []behaviour{
		{name: "confirms, in bulk", check: confirmsInBulk},
		{name: "acks and nacks in one burst", check: acksAndNacks},
		{name: "unroutable is confirmed", check: unroutableIsConfirmed},
		{name: "mandatory comes back before its confirm", check: returnBeforeConfirm},
		{name: "mandatory that is routed stays", check: routedMandatory},
		{name: "immediate is not implemented", check: immediatePublish},
		{name: "no such exchange", check: publishNoSuchExchange},
		{name: "CC and BCC", check: carbonCopies},
		{name: "CC that is no list", check: carbonCopiesWithoutList},
		{name: "another's user id", check: userIDOfAnother},
		{name: "message too large", since: "4.0", check: messageTooLarge},
		{name: "bodies of any size", check: bodySizes},
		{name: "confirm.select twice", check: confirmSelectTwice},
	}
}

func confirmsInBulk(p *probe) {
	q := p.queue(nil)
	p.must(p.ch.Confirm(false))
	const n = 1000
	confirms := p.ch.NotifyPublish(make(chan amqp.Confirmation, n))
	for i := range n {
		p.publish("", q, textMessage(fmt.Sprint(i)))
	}
	seen := map[uint64]bool{}
	for range n {
		c := receive(p, confirms)
		if !c.Ack || seen[c.DeliveryTag] {
			p.Fatalf("confirm %+v", c)
		}
		seen[c.DeliveryTag] = true
	}
	p.awaitReady(q, n)
}

func unroutableIsConfirmed(p *probe) {
	p.wantEqual("confirm", p.publishConfirmed("", p.name(), textMessage("a")), true)
}

func returnBeforeConfirm(p *probe) {
	p.must(p.ch.Confirm(false))
	// One goroutine of the client sends to both channels, in the order of the frames.
	order := make(chan any)
	returns, confirms := p.ch.NotifyReturn(make(chan amqp.Return)), p.ch.NotifyPublish(make(chan amqp.Confirmation))
	go func() {
		for range 2 {
			select {
			case r := <-returns:
				order <- r
			case c := <-confirms:
				order <- c
			}
		}
	}()
	key := p.name()
	p.must(p.ch.Publish("", key, true, false, amqp.Publishing{MessageId: "m", Headers: amqp.Table{"a": "b"}, Body: []byte("body")}))
	r, ok := receive(p, order).(amqp.Return)
	p.wantEqual("returned first", ok, true)
	p.wantEqual("return", []any{r.ReplyCode, r.ReplyText, r.Exchange, r.RoutingKey, r.MessageId, r.Headers["a"], string(r.Body)},
		[]any{uint16(312), "NO_ROUTE", "", key, "m", "b", "body"})
	c, ok := receive(p, order).(amqp.Confirmation)
	p.wantEqual("confirmed", ok && c.Ack, true)
}

func routedMandatory(p *probe) {
	q := p.queue(nil)
	returns := p.ch.NotifyReturn(make(chan amqp.Return, 1))
	p.must(p.ch.Publish("", q, true, false, textMessage("a")))
	p.get(q)
	expectNothing(p, returns)
}

func immediatePublish(p *probe) {
	p.expectConnectionClose(540, "NOT_IMPLEMENTED - immediate=true", func(conn *amqp.Connection) {
		ch, err := conn.Channel()
		p.must(err)
		_ = ch.Publish("", "q", false, true, textMessage("a"))
	})
}

func publishNoSuchExchange(p *probe) {
	x := p.name()
	p.expectChannelClose(404, "NOT_FOUND - no "+p.exchangeDescription(x), func(ch *amqp.Channel) {
		_ = ch.Publish(x, "", false, false, textMessage("a"))
	})
}

func carbonCopies(p *probe) {
	to, cc, bcc := p.queue(nil), p.queue(nil), p.queue(nil)
	p.publishConfirmed("", to, amqp.Publishing{Headers: amqp.Table{"CC": []any{cc, to}, "BCC": []any{bcc}, "a": "b"}})
	for _, q := range []string{to, cc, bcc} {
		d := p.get(q)
		p.wantEqual("key", d.RoutingKey, to)
		p.wantEqual("headers", d.Headers, amqp.Table{"CC": []any{cc, to}, "a": "b"})
	}
	p.expectEmpty(to)
}

func carbonCopiesWithoutList(p *probe) {
	ch := p.channel()
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	p.must(ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Headers: amqp.Table{"CC": "q"}}))
	p.wantEqual("code", receive(p, closed).Code, 406)
}

func userIDOfAnother(p *probe) {
	p.expectChannelClose(406, "PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was '"+p.username()+"'", func(ch *amqp.Channel) {
		_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{UserId: "other"})
	})
	q := p.queue(nil)
	p.publish("", q, amqp.Publishing{UserId: p.username()})
	p.wantEqual("user", p.get(q).UserId, p.username())
}

func messageTooLarge(p *probe) {
	p.expectChannelClose(406, "PRECONDITION_FAILED - message size 16777217 is larger than configured max size 16777216", func(ch *amqp.Channel) {
		_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Body: make([]byte, 16<<20+1)})
	})
}

func bodySizes(p *probe) {
	q := p.queue(nil)
	for _, size := range []int{0, 1, 131072 - 8, 131072 - 7, 131072, 300_000, 2 << 20} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(i * 7)
		}
		p.publish("", q, amqp.Publishing{Body: body})
		p.wantEqual(fmt.Sprint("body of ", size), string(p.get(q).Body) == string(body), true)
	}
}

func confirmSelectTwice(p *probe) {
	p.must(p.ch.Confirm(false))
	p.must(p.ch.Confirm(false))
	pending, err := p.ch.PublishWithDeferredConfirm("", p.queue(nil), false, false, textMessage("a"))
	p.must(err)
	ctx, cancel := context.WithTimeout(p.Context(), eventTimeout)
	defer cancel()
	ok, err := pending.WaitContext(ctx)
	p.must(err)
	p.wantEqual("tag and ack", []any{pending.DeliveryTag, ok}, []any{uint64(1), true})
}

// acksAndNacks publishes five messages in one write, of which the queue accepts two.
func acksAndNacks(p *probe) {
	q := p.queue(amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish"})
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 85, 10, "octet", 0)
	w.expect(1, 85, 11)
	burst := ""
	for range 5 {
		burst += frameBytes(1, 1, arguments(60, 40, "short", 0, "shortstr", "", "shortstr", q, "octet", 0)) +
			frameBytes(2, 1, "\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00") + frameBytes(3, 1, "a")
	}
	w.write(burst)
	acked := map[uint64]bool{}
	for len(acked) < 5 {
		class, method, args := w.method(1)
		last := binary.BigEndian.Uint64(args)
		first := last
		if args[8]&1 != 0 { // multiple: with all unconfirmed ones before it
			first = 1
		}
		for tag := first; tag <= last; tag++ {
			if _, settled := acked[tag]; !settled {
				acked[tag] = class == 60 && method == 80
			}
		}
	}
	p.wantEqual("acks", acked, map[uint64]bool{1: true, 2: true, 3: false, 4: false, 5: false})
}
