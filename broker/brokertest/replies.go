package brokertest

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

const replyTo = "amq.rabbitmq.reply-to"

// replies are the behaviours of direct reply-to
// (https://www.rabbitmq.com/docs/direct-reply-to).
func replies() []behaviour {
	return []behaviour{
		{name: "an answer comes to who asked", check: replyToRequester},
		{name: "each channel has an address of its own", check: replyAddressOfEachChannel},
		{name: "asked by any exchange", check: requestThroughExchange},
		{name: "a large answer", check: largeReply},
		{name: "an answer that expires at once", check: expiredReply},
		{name: "an answer by CC", check: replyByCC},
		{name: "a dead letter is no answer", since: "4.0", until: "4.3", check: deadLetterIsNoReply},
		{name: "a dead letter is an answer", since: "4.3", check: deadLetterIsReply},
		{name: "an answer counts as unroutable", until: "4.3", check: replyIsUnroutable},
		{name: "an answer is routable", since: "4.3", check: replyIsRoutable},
		{name: "an answer within a transaction does not wait", until: "4.3", check: replyInTransaction},
		{name: "an answer within a transaction waits", since: "4.3", check: replyAtCommit},
		{name: "nobody waits for the answer any more", check: replyAfterCancel},
		{name: "an address ends with its channel", check: replyAddressEnds},
		{name: "consuming again", check: replyConsumerAgain},
		{name: "needs a consumer", check: requestWithoutReplyConsumer},
		{name: "takes no acknowledgements", check: replyConsumerWithAcknowledgements},
		{name: "one for each channel", check: secondReplyConsumer},
		{name: "is declared already", check: declareReplyQueue},
		{name: "is no queue", check: replyQueueIsNoQueue},
		{name: "no address", until: "4.3", check: noReplyAddress}, // RabbitMQ 4.3 fails with 541
	}
}

func replyToRequester(p *probe) {
	q, answers := p.queue(nil), p.consumeReplies(p.ch)
	address := p.requestReplyAddress(p.ch, q)
	if !strings.HasPrefix(address, replyTo+".") {
		p.Fatalf("reply-to is %q", address)
	}
	o := p.newConnection()
	for i := range uint64(2) {
		tag := 2 + i
		if isOlder(p.version, "4.3") { // a reply has the tag of the next delivery, and does not count
			tag = 2
		}
		o.publish("", address, amqp.Publishing{Body: []byte("answer"), CorrelationId: "c", ReplyTo: "onwards"})
		d := receive(p, answers)
		p.wantEqual("answer", []any{string(d.Body), d.CorrelationId, d.ReplyTo, d.Exchange, d.RoutingKey, d.Redelivered, d.DeliveryTag},
			[]any{"answer", "c", "onwards", "", address, false, tag})
	}
}

func replyAddressOfEachChannel(p *probe) {
	q, ch := p.queue(nil), p.channel()
	one, two := p.consumeReplies(p.ch), p.consumeReplies(ch)
	first, second := p.requestReplyAddress(p.ch, q), p.requestReplyAddress(ch, q)
	p.wantEqual("different", first != second, true)
	p.publish("", second, textMessage("b"))
	p.publish("", first, textMessage("a"))
	p.wantEqual("bodies", []string{string(receive(p, one).Body), string(receive(p, two).Body)}, []string{"a", "b"})
}

func requestThroughExchange(p *probe) {
	q, x := p.queue(nil), p.exchange("fanout", nil)
	p.bind(q, "", x, nil)
	p.consumeReplies(p.ch)
	p.publish(x, "", amqp.Publishing{ReplyTo: replyTo})
	p.wantEqual("rewritten", strings.HasPrefix(p.get(q).ReplyTo, replyTo+"."), true)
}

func largeReply(p *probe) {
	q, answers := p.queue(nil), p.consumeReplies(p.ch)
	p.publish("", p.requestReplyAddress(p.ch, q), amqp.Publishing{Body: make([]byte, 1<<20)})
	p.wantEqual("length", len(receive(p, answers).Body), 1<<20)
}

func expiredReply(p *probe) {
	q, answers := p.queue(nil), p.consumeReplies(p.ch)
	p.publish("", p.requestReplyAddress(p.ch, q), amqp.Publishing{Expiration: "0", Body: []byte("a")})
	p.wantEqual("body", string(receive(p, answers).Body), "a")
}

func replyByCC(p *probe) {
	q, answers := p.queue(nil), p.consumeReplies(p.ch)
	address := p.requestReplyAddress(p.ch, q)
	p.publish("", p.name(), amqp.Publishing{Headers: amqp.Table{"CC": []any{address}}, Body: []byte("a")})
	p.wantEqual("body", string(receive(p, answers).Body), "a")
}

func deadLetterIsNoReply(p *probe) {
	q, answers := p.queue(nil), p.consumeReplies(p.ch)
	work := p.queue(deadLetterArguments("", p.requestReplyAddress(p.ch, q)))
	p.publishTexts(work, "a")
	p.must(p.getWith(p.channel(), work, false).Reject(false))
	expectNothing(p, answers)
}

func deadLetterIsReply(p *probe) {
	q, answers := p.queue(nil), p.consumeReplies(p.ch)
	work := p.queue(deadLetterArguments("", p.requestReplyAddress(p.ch, q)))
	p.publishTexts(work, "a")
	p.must(p.getWith(p.channel(), work, false).Reject(false))
	p.wantEqual("body", string(receive(p, answers).Body), "a")
}

func replyIsRoutable(p *probe) {
	q, answers := p.queue(nil), p.consumeReplies(p.ch)
	address, ch := p.requestReplyAddress(p.ch, q), p.channel()
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	p.must(ch.Publish("", address, true, false, textMessage("a")))
	receive(p, answers)
	p.must(ch.Qos(1, 0, false)) // answered after the publish
	expectNothing(p, returns)
}

func replyAtCommit(p *probe) {
	q, answers := p.queue(nil), p.consumeReplies(p.ch)
	address, ch := p.requestReplyAddress(p.ch, q), p.transaction()
	p.must(ch.Publish("", address, false, false, textMessage("a")))
	p.must(ch.Qos(1, 0, false)) // answered after the publish
	expectNothing(p, answers)
	p.must(ch.TxCommit())
	p.wantEqual("body", string(receive(p, answers).Body), "a")
}

func replyIsUnroutable(p *probe) {
	q, answers := p.queue(nil), p.consumeReplies(p.ch)
	address, ch := p.requestReplyAddress(p.ch, q), p.channel()
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	p.must(ch.Publish("", address, true, false, textMessage("a")))
	p.wantEqual("returned", receive(p, returns).ReplyCode, uint16(312))
	receive(p, answers)
}

func replyInTransaction(p *probe) {
	q, answers := p.queue(nil), p.consumeReplies(p.ch)
	address, ch := p.requestReplyAddress(p.ch, q), p.transaction()
	p.must(ch.Publish("", address, false, false, textMessage("a")))
	p.wantEqual("body", string(receive(p, answers).Body), "a")
	p.must(ch.TxCommit())
	expectNothing(p, answers)
}

func replyAfterCancel(p *probe) {
	q, ch := p.queue(nil), p.channel()
	answers, err := ch.Consume(replyTo, "t", true, false, false, false, nil)
	p.must(err)
	address := p.requestReplyAddress(ch, q)
	_, err = p.ch.QueueDeclarePassive(address, true, false, false, false, nil)
	p.must(err)
	p.must(ch.Cancel("t", false))
	p.publish("", address, textMessage("late"))
	for range answers { // closed by the cancellation
		p.Error("an answer came")
	}
	_, err = p.ch.QueueDeclarePassive(address, true, false, false, false, nil)
	p.expectError(err, 404, "NOT_FOUND - no "+p.queueDescription(address))
}

func replyAddressEnds(p *probe) {
	q, ch := p.queue(nil), p.channel()
	p.consumeReplies(ch)
	address := p.requestReplyAddress(ch, q)
	p.must(ch.Close())
	_, err := p.channel().QueueDeclarePassive(address, true, false, false, false, nil)
	p.expectError(err, 404, "NOT_FOUND - no "+p.queueDescription(address))
}

func replyConsumerAgain(p *probe) {
	q, ch := p.queue(nil), p.channel()
	_, err := ch.Consume(replyTo, "t", true, false, false, false, nil)
	p.must(err)
	former := p.requestReplyAddress(ch, q)
	p.must(ch.Cancel("t", false))
	answers := p.consumeReplies(ch)
	address := p.requestReplyAddress(ch, q)
	p.wantEqual("another address", former != address, true)
	p.publish("", address, textMessage("a"))
	receive(p, answers)
}

func requestWithoutReplyConsumer(p *probe) {
	p.expectChannelClose(406, "PRECONDITION_FAILED - fast reply consumer does not exist", func(ch *amqp.Channel) {
		_ = ch.Publish("", "q", false, false, amqp.Publishing{ReplyTo: replyTo})
	})
}

func replyConsumerWithAcknowledgements(p *probe) {
	_, err := p.ch.Consume(replyTo, "", false, false, false, false, nil)
	p.expectError(err, 406, "PRECONDITION_FAILED - reply consumer cannot acknowledge")
}

func secondReplyConsumer(p *probe) {
	p.consumeReplies(p.ch)
	_, err := p.ch.Consume(replyTo, "", true, false, false, false, nil)
	p.expectError(err, 406, "PRECONDITION_FAILED - reply consumer already set")
}

func declareReplyQueue(p *probe) {
	for _, declare := range []func() (amqp.Queue, error){
		func() (amqp.Queue, error) { return p.ch.QueueDeclare(replyTo, true, false, false, false, nil) },
		func() (amqp.Queue, error) { return p.ch.QueueDeclarePassive(replyTo, false, true, true, false, nil) },
	} {
		q, err := declare()
		p.must(err)
		p.wantEqual("queue", []any{q.Name, q.Messages, q.Consumers}, []any{replyTo, 0, 1})
	}
}

func replyQueueIsNoQueue(p *probe) {
	name := replyTo
	_, _, err := p.channel().Get(name, true)
	p.expectError(err, 404, "NOT_FOUND - no "+p.queueDescription(name))
	_, err = p.channel().QueuePurge(name, false)
	p.expectError(err, 404, "NOT_FOUND - no "+p.queueDescription(name))
	p.expectError(p.channel().QueueBind(name, "k", "amq.direct", false, nil), 404, "NOT_FOUND - no "+p.queueDescription(name))
	_, err = p.channel().QueueDelete(name, false, false, false)
	p.must(err)
}

func noReplyAddress(p *probe) {
	name := replyTo
	_, err := p.channel().QueueDeclare(name+".none", true, false, false, false, nil)
	p.expectError(err, 404, "NOT_FOUND - no "+p.queueDescription(name+".none"))
}

// consumeReplies consumes the replies to the requests of a channel.
func (p *probe) consumeReplies(ch *amqp.Channel) <-chan amqp.Delivery {
	p.Helper()
	deliveries, err := ch.Consume(replyTo, "", true, false, false, false, nil)
	p.must(err)
	return deliveries
}

// requestReplyAddress sends a request to a queue, gets it there, and returns its reply
// address.
func (p *probe) requestReplyAddress(ch *amqp.Channel, queue string) string {
	p.Helper()
	p.must(ch.Publish("", queue, false, false, amqp.Publishing{ReplyTo: replyTo}))
	return p.get(queue).ReplyTo
}
