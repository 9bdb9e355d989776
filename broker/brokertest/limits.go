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
			p.send(q, "a")
			p.ready(q, 1)
			p.ready(q, 0)
		}},
		{name: "message TTL", check: func(p *probe) {
			q := p.queue(nil)
			p.publishSafely("", q, amqp.Publishing{Expiration: "1500", Body: []byte("a")})
			p.ready(q, 1)
			p.ready(q, 0)
		}},
		{name: "the shorter TTL counts", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-message-ttl": int32(100)})
			p.publishSafely("", q, amqp.Publishing{Expiration: "60000", Body: []byte("a")})
			p.ready(q, 0)
		}},
		{name: "expired behind one that is not stays", check: func(p *probe) {
			q := p.queue(nil)
			p.send(q, "first")
			p.publishSafely("", q, amqp.Publishing{Expiration: "50", Body: []byte("second")})
			time.Sleep(moment)
			p.ready(q, 2)
			p.equal("body", p.bodies(q, 1), []string{"first"})
			p.empty(q)
		}},
		{name: "TTL 0 reaches a waiting consumer only", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-message-ttl": int32(0)})
			p.send(q, "lost")
			p.empty(q)
			deliveries := p.consume(p.ch, q)
			p.send(q, "taken")
			p.equal("body", string(receive(p, deliveries).Body), "taken")
		}},
		{name: "a given back message still expires", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-message-ttl": int32(300)})
			p.send(q, "a")
			d := p.getWith(p.ch, q, false)
			time.Sleep(400 * time.Millisecond)
			p.must(d.Nack(false, true))
			p.ready(q, 0)
		}},
		{name: "bad expiration", check: func(p *probe) {
			p.closes(406, "PRECONDITION_FAILED - invalid expiration 'soon': no_integer", func(ch *amqp.Channel) {
				_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Expiration: "soon"})
			})
			p.closes(406, "PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}", func(ch *amqp.Channel) {
				_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Expiration: "-1"})
			})
			p.closes(406, "PRECONDITION_FAILED - invalid expiration '10s': {leftover_string,\"s\"}", func(ch *amqp.Channel) {
				_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Expiration: "10s"})
			})
		}},
		{name: "maximum length drops the oldest", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-max-length": int32(2)})
			p.send(q, "a", "b", "c", "d")
			p.equal("bodies", p.bodies(q, 2), []string{"c", "d"})
			p.empty(q)
		}},
		{name: "maximum bytes drop the oldest", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-max-length-bytes": int32(10)})
			p.send(q, "aaaa", "bbbb", "cc", "dddd")
			p.equal("bodies", p.bodies(q, 3), []string{"bbbb", "cc", "dddd"})
			p.empty(q)
		}},
		{name: "what is with a consumer does not count", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-max-length": int32(1)})
			p.send(q, "a")
			d := p.getWith(p.ch, q, false)
			p.send(q, "b")
			p.ready(q, 1)
			p.must(d.Ack(false))
			p.equal("bodies", p.bodies(q, 1), []string{"b"})
		}},
		{name: "reject-publish nacks", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
			p.equal("first", p.publishSafely("", q, text("a")), true)
			p.equal("second", p.publishSafely("", q, text("b")), false)
			p.equal("bodies", p.bodies(q, 1), []string{"a"})
			p.equal("third", p.publishSafely("", q, text("c")), true)
			p.equal("bodies", p.bodies(q, 1), []string{"c"})
		}},
		{name: "one of two queues refuses", check: func(p *probe) {
			x, full, free := p.exchange("fanout", nil), p.queue(amqp.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"}), p.queue(nil)
			p.bind(full, "", x, nil)
			p.bind(free, "", x, nil)
			p.equal("confirm", p.publishSafely(x, "", text("a")), false)
			p.get(free)
		}},
		{name: "delivery limit drops", since: "4", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(2)})
			p.send(q, "a")
			counts := []any{}
			for range 3 {
				d := p.getWith(p.ch, q, false)
				counts = append(counts, d.Headers["x-delivery-count"], d.Redelivered)
				p.must(d.Nack(false, true))
			}
			p.equal("count and redelivered", counts, []any{nil, false, int64(1), true, int64(2), true})
			p.ready(q, 0)
		}},
		{name: "quorum queues have a delivery limit of 20", since: "4", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-queue-type": "quorum"})
			p.send(q, "a")
			for range 21 {
				p.must(p.getWith(p.ch, q, false).Nack(false, true))
			}
			p.ready(q, 0)
			p.empty(q)
		}},
		{name: "a closed channel counts as a failed delivery", check: func(p *probe) {
			q := p.queue(amqp.Table{"x-queue-type": "quorum"})
			p.send(q, "a")
			ch := p.channel()
			p.getWith(ch, q, false)
			p.must(ch.Close())
			p.equal("count", p.get(q).Headers["x-delivery-count"], any(int64(1)))
		}},
	}
}
