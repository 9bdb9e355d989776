package brokertest

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// limits are the behaviours of TTLs and length limits.
func limits() []behaviour {
	return []behaviour{
		{name: "queue TTL", check: queueTTL},
		{name: "message TTL", check: messageTTL},
		{name: "the shorter TTL counts", check: shorterTTL},
		{name: "expired behind one that is not stays", check: expiryAtHeadOnly},
		{name: "TTL 0 reaches a waiting consumer only", check: zeroTTL},
		{name: "a given back message still expires", check: requeuedMessageExpires},
		{name: "bad expiration", check: badExpiration},
		{name: "maximum length drops the oldest", check: maxLengthDropsOldest},
		{name: "maximum bytes drop the oldest", check: maxBytesDropOldest},
		{name: "what is with a consumer does not count", check: maxLengthIgnoresUnacknowledged},
		{name: "reject-publish nacks", check: rejectPublishNacks},
		{name: "a quorum queue that rejects publishes accepts one more", check: rejectPublishOfQuorum},
		{name: "maximum bytes of a quorum queue", until: "4.3", check: maxBytesOfQuorum},
		{name: "maximum bytes of a quorum queue count properties", since: "4.3", check: maxBytesOfQuorumWithProperties},
		{name: "one of two queues refuses", check: oneOfTwoQueuesRefuses},
		{name: "delivery limit drops", since: "4.0", check: deliveryLimitDrops},
		{name: "a nack counts as a failed delivery", since: "4.0", until: "4.3", check: nackCountsAsDelivery},
		{name: "a nack is no failed delivery", since: "4.3", check: nackIsNoFailedDelivery},
		{name: "quorum queues have no delivery limit", until: "4.0", check: noDeliveryLimit},
		{name: "quorum queues have a delivery limit of 20", since: "4.0", check: defaultDeliveryLimit},
		{name: "a closed channel counts as a failed delivery", check: closedChannelCountsAsDelivery},
	}
}

func queueTTL(p *probe) {
	q := p.queue(amqp.Table{"x-message-ttl": int32(1500)})
	p.publishTexts(q, "a")
	p.awaitReady(q, 1)
	p.awaitReady(q, 0)
}

func messageTTL(p *probe) {
	q := p.queue(nil)
	p.publishConfirmed("", q, amqp.Publishing{Expiration: "1500", Body: []byte("a")})
	p.awaitReady(q, 1)
	p.awaitReady(q, 0)
}

func shorterTTL(p *probe) {
	q := p.queue(amqp.Table{"x-message-ttl": int32(100)})
	p.publishConfirmed("", q, amqp.Publishing{Expiration: "60000", Body: []byte("a")})
	p.awaitReady(q, 0)
}

func expiryAtHeadOnly(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "first")
	p.publishConfirmed("", q, amqp.Publishing{Expiration: "50", Body: []byte("second")})
	time.Sleep(quietTime)
	p.awaitReady(q, 2)
	p.wantEqual("body", p.bodies(q, 1), []string{"first"})
	p.expectEmpty(q)
}

func zeroTTL(p *probe) {
	q := p.queue(amqp.Table{"x-message-ttl": int32(0)})
	p.publishTexts(q, "lost")
	p.expectEmpty(q)
	deliveries := p.consume(p.ch, q)
	p.publishTexts(q, "taken")
	p.wantEqual("body", string(receive(p, deliveries).Body), "taken")
}

func requeuedMessageExpires(p *probe) {
	q := p.queue(amqp.Table{"x-message-ttl": int32(300)})
	p.publishTexts(q, "a")
	d := p.getWith(p.ch, q, false)
	time.Sleep(400 * time.Millisecond)
	p.must(d.Nack(false, true))
	p.awaitReady(q, 0)
}

func badExpiration(p *probe) {
	p.expectChannelClose(406, "PRECONDITION_FAILED - invalid expiration 'soon': no_integer", func(ch *amqp.Channel) {
		_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Expiration: "soon"})
	})
	p.expectChannelClose(406, "PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}", func(ch *amqp.Channel) {
		_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Expiration: "-1"})
	})
	p.expectChannelClose(406, "PRECONDITION_FAILED - invalid expiration '10s': {leftover_string,\"s\"}", func(ch *amqp.Channel) {
		_ = ch.Publish("", p.queue(nil), false, false, amqp.Publishing{Expiration: "10s"})
	})
}

func maxLengthDropsOldest(p *probe) {
	q := p.queue(amqp.Table{"x-max-length": int32(2)})
	p.publishTexts(q, "a", "b", "c", "d")
	p.wantEqual("bodies", p.bodies(q, 2), []string{"c", "d"})
	p.expectEmpty(q)
}

func maxBytesDropOldest(p *probe) {
	q := p.queue(amqp.Table{"x-max-length-bytes": int32(10)})
	p.publishTexts(q, "aaaa", "bbbb", "cc", "dddd")
	p.wantEqual("bodies", p.bodies(q, 3), []string{"bbbb", "cc", "dddd"})
	p.expectEmpty(q)
}

func maxLengthIgnoresUnacknowledged(p *probe) {
	q := p.queue(amqp.Table{"x-max-length": int32(1)})
	p.publishTexts(q, "a")
	d := p.getWith(p.ch, q, false)
	p.publishTexts(q, "b")
	p.awaitReady(q, 1)
	p.must(d.Ack(false))
	p.wantEqual("bodies", p.bodies(q, 1), []string{"b"})
}

func rejectPublishNacks(p *probe) {
	q := p.queue(amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	p.wantEqual("first", p.publishConfirmed("", q, textMessage("a")), true)
	p.wantEqual("second", p.publishConfirmed("", q, textMessage("b")), false)
	p.wantEqual("bodies", p.bodies(q, 1), []string{"a"})
	p.wantEqual("third", p.publishConfirmed("", q, textMessage("c")), true)
	p.wantEqual("bodies", p.bodies(q, 1), []string{"c"})
}

func rejectPublishOfQuorum(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum", "x-max-length": int32(1), "x-overflow": "reject-publish"})
	for i, accepted := range []bool{true, true, false, false} {
		p.wantEqual(fmt.Sprint("publish ", i), p.publishConfirmed("", q, textMessage(fmt.Sprint(i))), accepted)
	}
	p.wantEqual("bodies", p.bodies(q, 1), []string{"0"})
	p.wantEqual("at the limit", p.publishConfirmed("", q, textMessage("a")), true)
	p.wantEqual("bodies", p.bodies(q, 2), []string{"1", "a"})
}

func maxBytesOfQuorum(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum", "x-max-length-bytes": int32(10)})
	p.publishTexts(q, "aaaa", "bbbb", "cc", "dddd")
	p.wantEqual("bodies", p.bodies(q, 3), []string{"bbbb", "cc", "dddd"})
	p.expectEmpty(q)
}

// Properties have at least two bytes.
func maxBytesOfQuorumWithProperties(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum", "x-max-length-bytes": int32(14)})
	p.publishTexts(q, "aaaaa", "bbbbb")
	p.awaitReady(q, 2)
	p.publishConfirmed("", q, amqp.Publishing{MessageId: "abc", Body: []byte("c")})
	p.wantEqual("bodies", p.bodies(q, 2), []string{"bbbbb", "c"})
	p.expectEmpty(q)
}

func oneOfTwoQueuesRefuses(p *probe) {
	x, full, free := p.exchange("fanout", nil), p.queue(amqp.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"}), p.queue(nil)
	p.bind(full, "", x, nil)
	p.bind(free, "", x, nil)
	p.wantEqual("confirm", p.publishConfirmed(x, "", textMessage("a")), false)
	p.get(free)
}

func deliveryLimitDrops(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(2)})
	p.publishTexts(q, "a")
	counts := []any{}
	for range 3 {
		d := p.getWith(p.ch, q, false)
		counts = append(counts, d.Headers["x-delivery-count"], d.Redelivered)
		p.must(d.Reject(true))
	}
	p.wantEqual("count and redelivered", counts, []any{nil, false, int64(1), true, int64(2), true})
	p.awaitReady(q, 0)
}

func noDeliveryLimit(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishTexts(q, "a")
	const more = 25 // than the limit since RabbitMQ 4.0
	for range more {
		p.must(p.getWith(p.ch, q, false).Reject(true))
	}
	p.wantEqual("headers", p.get(q).Headers, amqp.Table{"x-delivery-count": int64(more)})
}

func defaultDeliveryLimit(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishTexts(q, "a")
	for range 21 {
		p.must(p.getWith(p.ch, q, false).Reject(true))
	}
	p.awaitReady(q, 0)
	p.expectEmpty(q)
}

func nackCountsAsDelivery(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishTexts(q, "a")
	p.must(p.getWith(p.ch, q, false).Nack(false, true))
	p.wantEqual("headers", p.get(q).Headers, amqp.Table{"x-delivery-count": int64(1)})
}

func nackIsNoFailedDelivery(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(1)})
	p.publishTexts(q, "a")
	for range 3 {
		p.must(p.getWith(p.ch, q, false).Nack(false, true))
	}
	d := p.getWith(p.ch, q, false)
	p.wantEqual("after nacks", []any{d.Redelivered, d.Headers}, []any{true, amqp.Table{"x-acquired-count": int64(3)}})
	p.must(d.Reject(true))
	d = p.getWith(p.ch, q, false)
	p.wantEqual("after a rejection", d.Headers, amqp.Table{"x-acquired-count": int64(4), "x-delivery-count": int64(1)})
	p.must(d.Nack(false, true))
	p.must(p.getWith(p.ch, q, false).Reject(true))
	p.expectEmpty(q)
}

func closedChannelCountsAsDelivery(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishTexts(q, "a")
	ch := p.channel()
	p.getWith(ch, q, false)
	p.must(ch.Close())
	p.wantEqual("count", p.get(q).Headers["x-delivery-count"], any(int64(1)))
}
