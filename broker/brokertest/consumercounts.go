package brokertest

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// consumerCounts are the cases about the consumers that a queue counts. A quorum queue counts
// all who have messages of it.
func consumerCounts() []behaviour {
	return []behaviour{
		{name: "a cancelled consumer of a classic queue is none", check: cancelledConsumerOfClassic},
		{name: "a quorum queue counts a cancelled consumer until its messages are settled", check: cancelledConsumerOfQuorum},
		{name: "a quorum queue counts a cancelled consumer until its channel ends", check: cancelledConsumerAndChannel},
		{name: "a quorum queue counts messages of get as consumers", check: countOfGet},
		{name: "a quorum queue counts the single active consumer alone", check: countOfSingleActive},
		{name: "a quorum queue with messages of a cancelled consumer does not expire", check: heldQueueStays},
		{name: "a consumer of a quorum queue takes over the messages of its tag", check: consumerTakesOver},
	}
}

// awaitConsumers waits until a queue counts n consumers. Quorum queues settle messages after
// the acknowledgement.
func (p *probe) awaitConsumers(queue string, n int) {
	p.Helper()
	got := -1
	if !eventually(pollTime, func() bool { got = p.consumers(queue); return got == n }) {
		p.Fatalf("%s counts %d consumers, want %d", queue, got, n)
	}
}

func (p *probe) consumers(queue string) int {
	p.Helper()
	q, err := p.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	p.must(err)
	return q.Consumers
}

// consumedAndCancelled returns n deliveries of a queue to a consumer with the tag t, which is cancelled.
func (p *probe) consumedAndCancelled(ch *amqp.Channel, queue string, n int) (deliveries []amqp.Delivery) {
	p.Helper()
	p.must(ch.Qos(n, 0, false))
	from, err := ch.Consume(queue, "t", false, false, false, false, nil)
	p.must(err)
	for range n {
		deliveries = append(deliveries, receive(p, from))
	}
	p.must(ch.Cancel("t", false))
	return deliveries
}

func cancelledConsumerOfClassic(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a")
	d := p.consumedAndCancelled(p.channel(), q, 1)
	p.wantEqual("consumers", p.consumers(q), 0)
	p.must(d[0].Ack(false))
	p.wantEqual("consumers", p.consumers(q), 0)
}

func cancelledConsumerOfQuorum(p *probe) {
	for name, settle := range map[string]func(amqp.Delivery) error{
		"ack":    func(d amqp.Delivery) error { return d.Ack(false) },
		"nack":   func(d amqp.Delivery) error { return d.Nack(false, true) },
		"reject": func(d amqp.Delivery) error { return d.Reject(false) },
	} {
		q := p.queue(amqp.Table{"x-queue-type": "quorum"})
		p.publishTexts(q, "a", "b", "c")
		deliveries := p.consumedAndCancelled(p.channel(), q, 2)
		p.wantEqual(name+": consumers", p.consumers(q), 1)
		p.must(settle(deliveries[1]))
		if name == "nack" {
			p.awaitReady(q, 2)
		}
		p.wantEqual(name+": consumers with one message", p.consumers(q), 1)
		p.must(settle(deliveries[0]))
		p.awaitConsumers(q, 0)
	}
}

func cancelledConsumerAndChannel(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishTexts(q, "a")
	ch := p.channel()
	p.consumedAndCancelled(ch, q, 1)
	p.wantEqual("consumers", p.consumers(q), 1)
	p.must(ch.Close())
	p.awaitConsumers(q, 0)
	p.awaitReady(q, 1)
}

func countOfGet(p *probe) {
	for kind, counted := range map[string]int{"classic": 0, "quorum": 2} {
		q := p.queue(amqp.Table{"x-queue-type": kind})
		p.publishTexts(q, "a", "b", "c")
		p.awaitReady(q, 3)
		first := p.getWith(p.ch, q, false)
		p.getWith(p.ch, q, false)
		p.getWith(p.ch, q, true) // needs no acknowledgement
		p.wantEqual(kind+": consumers", p.consumers(q), counted)
		p.must(first.Ack(false))
		p.awaitConsumers(q, max(0, counted-1))
	}
}

func countOfSingleActive(p *probe) {
	for kind, counted := range map[string]int{"classic": 2, "quorum": 1} {
		q := p.queue(amqp.Table{"x-queue-type": kind, "x-single-active-consumer": true})
		p.wantEqual(kind+": consumers of an idle queue", p.consumers(q), 0)
		p.consume(p.channel(), q)
		p.consume(p.channel(), q)
		p.wantEqual(kind+": consumers", p.consumers(q), counted)
	}
}

func heldQueueStays(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum", "x-expires": int32(1000)})
	p.publishTexts(q, "a")
	d := p.consumedAndCancelled(p.channel(), q, 1)
	time.Sleep(2 * time.Second)
	p.wantEqual("consumers", p.consumers(q), 1)
	p.must(d[0].Ack(false))
	time.Sleep(1500 * time.Millisecond)
	p.awaitDeleted(q)
}

func consumerTakesOver(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishTexts(q, "a", "b")
	ch := p.channel()
	d := p.consumedAndCancelled(ch, q, 1)
	again, err := ch.Consume(q, "t", false, false, false, false, nil)
	p.must(err)
	expectNothing(p, again) // its prefetch is used
	p.wantEqual("consumers", p.consumers(q), 1)
	p.must(d[0].Ack(false))
	p.wantEqual("body", string(receive(p, again).Body), "b")
	p.wantEqual("consumers", p.consumers(q), 1)
}
