package brokertest

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// limits are the behaviours of TTLs and length limits.
func limits() []behaviour {
	return []behaviour{
		{name: "queue TTL", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-message-ttl": int32(1500)})
			p.publishTexts(q, "a")
			p.awaitReady(q, 1)
			p.awaitReady(q, 0)
		}},
		{name: "message TTL", check: func(p *probe) {
			q := p.queue(nil)
			p.publishConfirmed("", q, amqp.Publishing{Expiration: "1500", Body: []byte("a")})
			p.awaitReady(q, 1)
			p.awaitReady(q, 0)
		}},
		{name: "the shorter TTL counts", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-message-ttl": int32(100)})
			p.publishConfirmed("", q, amqp.Publishing{Expiration: "60000", Body: []byte("a")})
			p.awaitReady(q, 0)
		}},
		{name: "expired behind one that is not stays", check: func(p *probe) {
			q := p.queue(nil)
			p.publishTexts(q, "first")
			p.publishConfirmed("", q, amqp.Publishing{Expiration: "50", Body: []byte("second")})
			time.Sleep(quietTime)
			p.awaitReady(q, 2)
			p.equal("body", p.bodies(q, 1), []string{"first"})
			p.expectEmpty(q)
		}},
		{name: "TTL 0 reaches a waiting consumer only", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-message-ttl": int32(0)})
			p.publishTexts(q, "lost")
			p.expectEmpty(q)
			deliveries := p.consume(p.ch, q)
			p.publishTexts(q, "taken")
			p.equal("body", string(receive(p, deliveries).Body), "taken")
		}},
		{name: "a given back message still expires", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-message-ttl": int32(300)})
			p.publishTexts(q, "a")
			d := p.getWith(p.ch, q, false)
			time.Sleep(400 * time.Millisecond)
			p.must(d.Nack(false, true))
			p.awaitReady(q, 0)
		}},
		{name: "bad expiration", check: func(p *probe) {
			p.expectChannelClose(406, "PRECONDITION_FAILED - invalid expiration 'soon': no_integer", func(ch *amqp.Channel) {
				_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Expiration: "soon"})
			})
			p.expectChannelClose(406, "PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}", func(ch *amqp.Channel) {
				_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Expiration: "-1"})
			})
			p.expectChannelClose(406, "PRECONDITION_FAILED - invalid expiration '10s': {leftover_string,\"s\"}", func(ch *amqp.Channel) {
				_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Expiration: "10s"})
			})
		}},
		{name: "maximum length drops the oldest", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-max-length": int32(2)})
			p.publishTexts(q, "a", "b", "c", "d")
			p.equal("bodies", p.bodies(q, 2), []string{"c", "d"})
			p.expectEmpty(q)
		}},
		{name: "maximum bytes drop the oldest", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-max-length-bytes": int32(10)})
			p.publishTexts(q, "aaaa", "bbbb", "cc", "dddd")
			p.equal("bodies", p.bodies(q, 3), []string{"bbbb", "cc", "dddd"})
			p.expectEmpty(q)
		}},
		{name: "what is with a consumer does not count", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-max-length": int32(1)})
			p.publishTexts(q, "a")
			d := p.getWith(p.ch, q, false)
			p.publishTexts(q, "b")
			p.awaitReady(q, 1)
			p.must(d.Ack(false))
			p.equal("bodies", p.bodies(q, 1), []string{"b"})
		}},
		{name: "reject-publish nacks", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
			p.equal("first", p.publishConfirmed("", q, textMessage("a")), true)
			p.equal("second", p.publishConfirmed("", q, textMessage("b")), false)
			p.equal("bodies", p.bodies(q, 1), []string{"a"})
			p.equal("third", p.publishConfirmed("", q, textMessage("c")), true)
			p.equal("bodies", p.bodies(q, 1), []string{"c"})
		}},
		{name: "one of two queues refuses", check: func(p *probe) {
			x, full, free := p.exchange("fanout", nil), p.queue(amqp.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"}), p.queue(nil)
			p.bind(full, "", x, nil)
			p.bind(free, "", x, nil)
			p.equal("confirm", p.publishConfirmed(x, "", textMessage("a")), false)
			p.get(free)
		}},
		{name: "delivery limit drops", since: "4", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(2)})
			p.publishTexts(q, "a")
			counts := []any{}
			for range 3 {
				d := p.getWith(p.ch, q, false)
				counts = append(counts, d.Headers["x-delivery-count"], d.Redelivered)
				p.must(d.Nack(false, true))
			}
			p.equal("count and redelivered", counts, []any{nil, false, int64(1), true, int64(2), true})
			p.awaitReady(q, 0)
		}},
		{name: "quorum queues have a delivery limit of 20", since: "4", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-queue-type": "quorum"})
			p.publishTexts(q, "a")
			for range 21 {
				p.must(p.getWith(p.ch, q, false).Nack(false, true))
			}
			p.awaitReady(q, 0)
			p.expectEmpty(q)
		}},
		{name: "a closed channel counts as a failed delivery", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-queue-type": "quorum"})
			p.publishTexts(q, "a")
			ch := p.channel()
			p.getWith(ch, q, false)
			p.must(ch.Close())
			p.equal("count", p.get(q).Headers["x-delivery-count"], any(int64(1)))
		}},
	}
}
