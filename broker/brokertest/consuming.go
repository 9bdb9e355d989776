package brokertest

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func consuming() []behaviour {
	return []behaviour{
		{name: "in order", check: consumeInOrder},
		{name: "round robin", check: consumeRoundRobin},
		{name: "prefetch of a consumer", check: prefetchOfConsumer},
		{name: "prefetch of each consumer", check: prefetchOfEachConsumer},
		{name: "prefetch of the channel", until: "4.3", check: prefetchOfChannel},
		{name: "prefetch of the channel is of each consumer", since: "4.3", check: noPrefetchOfChannel},
		{name: "prefetch is of consumers to come", check: prefetchOfLaterConsumers},
		{name: "prefetch does not hold back auto-ack", check: prefetchIgnoresAutoAck},
		{name: "quorum has no prefetch of the channel", until: "4.3", check: noChannelPrefetchOfQuorum},
		{name: "prefetch by size is not implemented", check: prefetchBySize},
		{name: "single active consumer", check: singleActiveConsumer},
		{name: "the next single active consumer begins with what the last one had", check: nextSingleActiveConsumer},
		{name: "a single active consumer is exclusive on a quorum queue only", check: exclusiveSingleActiveConsumer},
		{name: "a higher priority takes a single active consumer of a quorum queue over", since: "4.0", check: singleActivePriority},
		{name: "a higher priority waits for the single active consumer of a classic queue", check: noSingleActivePriority},
		{name: "consumer priority", check: consumerPriority},
		{name: "exclusive consumer", check: exclusiveConsumer},
		{name: "a quorum queue has no exclusive consumer", check: noExclusiveConsumerOfQuorum},
		{name: "consume what is not there", check: consumeMissingQueue},
		{name: "a consumer tag used twice", check: consumerTagTwice},
		{name: "cancel keeps what is not acknowledged", check: cancelKeepsUnacknowledged},
		{name: "cancel of none is fine", check: func(p *probe) { p.must(p.ch.Cancel("none", false)) }},
		{name: "a deleted queue cancels its consumers", check: deletedQueueCancelsConsumers},
		{name: "acknowledging what a deleted queue delivered", check: acknowledgeAfterQueueDelete},
		{name: "generated consumer tag", check: generatedConsumerTag},
		{name: "get", check: getMessage},
		{name: "get of a quorum queue with a single active consumer", check: getWithSingleActiveConsumer},
	}
}

func consumeInOrder(p *probe) {
	q := p.queue(nil)
	const n = 500
	p.must(p.ch.Confirm(false))
	for i := range n {
		p.publish("", q, textMessage(fmt.Sprint(i)))
	}
	deliveries := p.consume(p.channel(), q)
	for i := range n {
		d := receive(p, deliveries)
		p.wantEqual("body and tag", []any{string(d.Body), d.DeliveryTag}, []any{fmt.Sprint(i), uint64(i + 1)})
		p.must(d.Ack(false))
	}
}

func consumeRoundRobin(p *probe) {
	q := p.queue(nil)
	one, two := p.consume(p.ch, q), p.consume(p.channel(), q)
	p.publishTexts(q, "a", "b", "c", "d")
	p.wantEqual("first", []string{string(receive(p, one).Body), string(receive(p, one).Body)}, []string{"a", "c"})
	p.wantEqual("second", []string{string(receive(p, two).Body), string(receive(p, two).Body)}, []string{"b", "d"})
}

func prefetchOfConsumer(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b", "c")
	p.must(p.ch.Qos(2, 0, false))
	deliveries := p.consume(p.ch, q)
	first := receive(p, deliveries)
	receive(p, deliveries)
	expectNothing(p, deliveries)
	p.must(first.Ack(false))
	p.wantEqual("body", string(receive(p, deliveries).Body), "c")
}

func prefetchOfEachConsumer(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b", "c")
	p.must(p.ch.Qos(1, 0, false))
	one, two := p.consume(p.ch, q), p.consume(p.ch, q)
	receive(p, one)
	receive(p, two)
	expectNothing(p, one)
	expectNothing(p, two)
}

func prefetchOfChannel(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b", "c")
	p.must(p.ch.Qos(1, 0, true))
	one, two := p.consume(p.ch, q), p.consume(p.ch, q)
	first := receive(p, one)
	expectNothing(p, one)
	expectNothing(p, two)
	p.must(first.Ack(false))
	select { // either of the two
	case d := <-one:
		p.wantEqual("body", string(d.Body), "b")
	case d := <-two:
		p.wantEqual("body", string(d.Body), "b")
	case <-time.After(eventTimeout):
		p.Fatal("nothing came")
	}
}

func noPrefetchOfChannel(p *probe) {
	for _, kind := range []string{"classic", "quorum"} {
		q := p.queue(amqp.Table{"x-queue-type": kind})
		p.publishTexts(q, "a", "b", "c")
		ch := p.channel()
		p.must(ch.Qos(1, 0, true))
		one, two := p.consume(ch, q), p.consume(ch, q)
		receive(p, one)
		receive(p, two)
		expectNothing(p, one)
		expectNothing(p, two)
		p.must(ch.Close())
	}
}

func prefetchOfLaterConsumers(p *probe) {
	q := p.queue(nil)
	deliveries := p.consume(p.ch, q)
	p.must(p.ch.Qos(1, 0, false))
	p.publishTexts(q, "a", "b")
	receive(p, deliveries)
	receive(p, deliveries)
}

func prefetchIgnoresAutoAck(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b")
	p.must(p.ch.Qos(1, 0, false))
	deliveries, err := p.ch.Consume(q, "", true, false, false, false, nil)
	p.must(err)
	receive(p, deliveries)
	receive(p, deliveries)
	p.awaitReady(q, 0)
}

func noChannelPrefetchOfQuorum(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.expectConnectionClose(540, "NOT_IMPLEMENTED - "+p.queueDescription(q)+" does not support global qos", func(conn *amqp.Connection) {
		ch, err := conn.Channel()
		p.must(err)
		p.must(ch.Qos(1, 0, true))
		_, _ = ch.Consume(q, "", false, false, false, false, nil)
	})
}

func prefetchBySize(p *probe) {
	p.expectConnectionClose(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)", func(conn *amqp.Connection) {
		ch, err := conn.Channel()
		p.must(err)
		_ = ch.Qos(1, 1, false)
	})
}

func singleActiveConsumer(p *probe) {
	q := p.queue(amqp.Table{"x-single-active-consumer": true})
	first := p.channel()
	one, two := p.consume(first, q), p.consume(p.channel(), q)
	p.publishTexts(q, "a", "b")
	p.must(receive(p, one).Ack(false))
	receive(p, one) // never acknowledged
	expectNothing(p, two)
	p.must(first.Close())
	d := receive(p, two)
	p.wantEqual("body and redelivered", []any{string(d.Body), d.Redelivered}, []any{"b", true})
}

func nextSingleActiveConsumer(p *probe) {
	for _, kind := range []string{"classic", "quorum"} {
		q := p.queue(amqp.Table{"x-queue-type": kind, "x-single-active-consumer": true})
		first := p.channel()
		p.must(first.Qos(2, 0, false))
		one, two := p.consume(first, q), p.consume(p.channel(), q)
		p.publishTexts(q, "a", "b", "c", "d")
		receive(p, one)
		receive(p, one)
		p.must(first.Close())
		for _, body := range []string{"a", "b", "c", "d"} {
			p.wantEqual(kind, string(receive(p, two).Body), body)
		}
	}
}

func exclusiveSingleActiveConsumer(p *probe) {
	q := p.queue(amqp.Table{"x-single-active-consumer": true})
	_, err := p.channel().Consume(q, "", false, true, false, false, nil)
	p.expectError(err, 403, "ACCESS_REFUSED - "+p.queueDescription(q)+" in exclusive use")
	q = p.queue(amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true})
	_, err = p.channel().Consume(q, "", false, true, false, false, nil)
	p.must(err)
}

func singleActivePriority(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true})
	low := p.consume(p.ch, q)
	p.publishTexts(q, "a", "b")
	a, b := receive(p, low), receive(p, low)
	high, err := p.channel().Consume(q, "", false, false, false, false, amqp.Table{"x-priority": int32(1)})
	p.must(err)
	p.publishTexts(q, "c", "d")
	p.must(a.Ack(false))
	expectNothing(p, low)
	expectNothing(p, high)
	p.must(b.Ack(false))
	for _, body := range []string{"c", "d"} {
		d := receive(p, high)
		p.wantEqual("body and redelivered", []any{string(d.Body), d.Redelivered}, []any{body, false})
		p.must(d.Ack(false))
	}
	expectNothing(p, low)
}

func noSingleActivePriority(p *probe) {
	q := p.queue(amqp.Table{"x-single-active-consumer": true})
	first := p.channel()
	low := p.consume(first, q)
	_ = p.consume(p.channel(), q)
	high, err := p.channel().Consume(q, "", false, false, false, false, amqp.Table{"x-priority": int32(1)})
	p.must(err)
	p.publishTexts(q, "a", "b")
	p.must(receive(p, low).Ack(false))
	p.wantEqual("body", string(receive(p, low).Body), "b")
	p.must(first.Close())
	p.wantEqual("the next", string(receive(p, high).Body), "b")
}

func consumerPriority(p *probe) {
	q := p.queue(nil)
	p.must(p.ch.Qos(1, 0, false))
	low := p.consume(p.ch, q)
	high, err := p.ch.Consume(q, "", false, false, false, false, amqp.Table{"x-priority": int32(5)})
	p.must(err)
	p.publishTexts(q, "a", "b")
	p.wantEqual("high", string(receive(p, high).Body), "a")
	p.wantEqual("low", string(receive(p, low).Body), "b")
}

func exclusiveConsumer(p *probe) {
	q := p.queue(nil)
	_, err := p.ch.Consume(q, "", false, true, false, false, nil)
	p.must(err)
	_, err = p.channel().Consume(q, "", false, false, false, false, nil)
	p.expectError(err, 403, "ACCESS_REFUSED - "+p.queueDescription(q)+" in exclusive use")
	_, err = p.channel().Consume(q, "", false, true, false, false, nil)
	p.expectError(err, 403, "ACCESS_REFUSED - "+p.queueDescription(q)+" in exclusive use")
}

// Both consumers of a quorum queue are active, whichever asks to be the only one.
func noExclusiveConsumerOfQuorum(p *probe) {
	for _, exclusive := range [][2]bool{{true, true}, {true, false}, {false, true}} {
		q := p.queue(amqp.Table{"x-queue-type": "quorum"})
		var deliveries [2]<-chan amqp.Delivery
		for i := range deliveries {
			ch := p.newConnection().ch
			p.must(ch.Qos(1, 0, false))
			var err error
			deliveries[i], err = ch.Consume(q, "", false, exclusive[i], false, false, nil)
			p.must(err)
		}
		p.publishTexts(q, "a", "b")
		receive(p, deliveries[0])
		receive(p, deliveries[1])
	}
}

func consumeMissingQueue(p *probe) {
	name := p.name()
	_, err := p.ch.Consume(name, "", false, false, false, false, nil)
	p.expectError(err, 404, "NOT_FOUND - no "+p.queueDescription(name))
}

func consumerTagTwice(p *probe) {
	q := p.queue(nil)
	p.expectConnectionClose(530, "NOT_ALLOWED - attempt to reuse consumer tag 't'", func(conn *amqp.Connection) {
		ch, err := conn.Channel()
		p.must(err)
		_, err = ch.Consume(q, "t", false, false, false, false, nil)
		p.must(err)
		_, _ = ch.Consume(q, "t", false, false, false, false, nil)
	})
}

func cancelKeepsUnacknowledged(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b")
	p.must(p.ch.Qos(1, 0, false))
	deliveries, err := p.ch.Consume(q, "t", false, false, false, false, nil)
	p.must(err)
	d := receive(p, deliveries)
	p.must(p.ch.Cancel("t", false))
	p.awaitReady(q, 1)
	p.must(d.Ack(false))
	p.wantEqual("bodies", p.bodies(q, 1), []string{"b"})
}

func deletedQueueCancelsConsumers(p *probe) {
	q := p.queue(nil)
	cancelled := p.ch.NotifyCancel(make(chan string, 1))
	_, err := p.ch.Consume(q, "mine", false, false, false, false, nil)
	p.must(err)
	_, err = p.newConnection().ch.QueueDelete(q, false, false, false)
	p.must(err)
	p.wantEqual("tag", receive(p, cancelled), "mine")
}

func acknowledgeAfterQueueDelete(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a")
	d := p.getWith(p.ch, q, false)
	_, err := p.ch.QueueDelete(q, false, false, false)
	p.must(err)
	p.must(d.Ack(false))
	p.must(p.ch.Qos(1, 0, false)) // the channel is still open
}

func generatedConsumerTag(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a")
	// amqp091-go generates tags itself, so a raw connection is used.
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 60, 20, "short", 0, "shortstr", q, "shortstr", "", "octet", 0, "table", "")
	class, method, args := w.method(1)
	p.wantEqual("method", []uint16{class, method}, []uint16{60, 21})
	if tag := string(args[1:]); !strings.HasPrefix(tag, "amq.ctag-") {
		p.Fatalf("tag is %q", tag)
	}
}

func getMessage(p *probe) {
	q := p.queue(nil)
	_, ok, err := p.ch.Get(q, false)
	p.must(err)
	p.wantEqual("there", ok, false)
	p.publishTexts(q, "a", "b", "c")
	d := p.getWith(p.ch, q, false)
	p.wantEqual("left", d.MessageCount, uint32(2))
	p.must(d.Ack(false))
}

func getWithSingleActiveConsumer(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true})
	_, _, err := p.ch.Get(q, false)
	kind := "quorum"
	if !isOlder(p.version, "4.3") {
		kind = `<<"quorum">>`
	}
	p.expectError(err, 405, "RESOURCE_LOCKED - cannot obtain access to locked "+p.queueDescription(q)+
		". basic.get operations are not supported by "+kind+" queues with single active consumer")
}
