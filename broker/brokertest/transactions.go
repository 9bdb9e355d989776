package brokertest

import (
	"errors"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// transactions are the behaviours of tx (https://www.rabbitmq.com/docs/semantics#tx).
func transactions() []behaviour {
	return []behaviour{
		{name: "publishes come with the commit", check: commitPublishes},
		{name: "a rollback drops publishes", check: rollbackPublishes},
		{name: "a closed channel drops publishes", check: closeDropsPublishes},
		{name: "acknowledgements come with the commit", check: commitAcknowledgements},
		{name: "a rollback takes acknowledgements back", check: rollbackAcknowledgements},
		{name: "a rejection comes with the commit", check: commitRejection},
		{name: "an acknowledgement that is not committed takes no prefetch off", check: prefetchBeforeCommit},
		{name: "what is acknowledged is not recovered", check: recoverInTransaction},
		{name: "mandatory comes back before commit-ok", check: returnBeforeCommitOK},
		{name: "routes when published", since: "4.0", check: routingBeforeCommit},
		{name: "a queue that is deleted before the commit", since: "4.0", until: "4.3", check: queueDeletedBeforeCommit},
		{name: "a deleted queue fails the commit", since: "4.3", check: anyQueueDeletedBeforeCommit},
		{name: "goes on after a commit", check: secondTransaction},
		{name: "publishes and acknowledgements together", check: commitBoth},
		{name: "no such exchange", check: transactionNoSuchExchange},
		{name: "unknown tag", check: transactionUnknownTag},
		{name: "a tag acknowledged twice", check: tagTwiceInTransaction},
		{name: "a queue that refuses a publish", check: commitRefused},
		{name: "select twice", check: txSelectTwice},
		{name: "a commit of nothing", check: emptyCommit},
		{name: "not selected", check: commitWithoutSelect},
		{name: "not with confirms", check: transactionWithConfirms},
	}
}

func commitPublishes(p *probe) {
	q, ch := p.queue(nil), p.transaction()
	p.must(ch.Publish("", q, false, false, textMessage("a")))
	p.must(ch.Publish("", q, false, false, textMessage("b")))
	p.expectEmpty(q)
	p.must(ch.TxCommit())
	p.wantEqual("bodies", p.bodies(q, 2), []string{"a", "b"})
}

func rollbackPublishes(p *probe) {
	q, ch := p.queue(nil), p.transaction()
	p.must(ch.Publish("", q, false, false, textMessage("dropped")))
	p.must(ch.TxRollback())
	p.must(ch.Publish("", q, false, false, textMessage("kept")))
	p.must(ch.TxCommit())
	p.wantEqual("bodies", p.bodies(q, 1), []string{"kept"})
	p.expectEmpty(q)
}

func closeDropsPublishes(p *probe) {
	q, ch := p.queue(nil), p.transaction()
	p.must(ch.Publish("", q, false, false, textMessage("dropped")))
	p.must(ch.Close())
	p.expectEmpty(q)
}

func commitAcknowledgements(p *probe) {
	q, ch := p.queue(nil), p.transaction()
	p.publishTexts(q, "a", "b")
	p.must(p.getWith(ch, q, false).Ack(false))
	p.must(ch.TxCommit())
	p.must(p.getWith(ch, q, false).Ack(false))
	p.must(ch.Close())
	d := p.get(q)
	p.wantEqual("body and redelivered", []any{string(d.Body), d.Redelivered}, []any{"b", true})
	p.expectEmpty(q)
}

func rollbackAcknowledgements(p *probe) {
	q, ch := p.queue(nil), p.transaction()
	p.publishTexts(q, "a", "b")
	p.getWith(ch, q, false)
	p.getWith(ch, q, false)
	p.must(ch.Ack(2, true))
	p.must(ch.TxRollback())
	p.expectEmpty(q)        // the channel still has them
	p.must(ch.Ack(1, true)) // and can be acknowledged again
	p.must(ch.TxCommit())
	p.must(ch.Close())
	p.wantEqual("left", p.bodies(q, 1), []string{"b"})
	p.expectEmpty(q)
}

func commitRejection(p *probe) {
	dead := p.queue(nil)
	q, ch := p.queue(deadLetterArguments("", dead)), p.transaction()
	p.publishTexts(q, "a", "b")
	p.must(p.getWith(ch, q, false).Nack(false, false))
	p.must(p.getWith(ch, q, false).Reject(true))
	p.expectEmpty(dead)
	p.expectEmpty(q)
	p.must(ch.TxCommit())
	p.wantEqual("rejected", string(p.get(dead).Body), "a")
	p.wantEqual("requeued", string(p.get(q).Body), "b")
}

func prefetchBeforeCommit(p *probe) {
	q, ch := p.queue(nil), p.transaction()
	p.publishTexts(q, "a", "b")
	p.must(ch.Qos(1, 0, false))
	deliveries := p.consume(ch, q)
	p.must(receive(p, deliveries).Ack(false))
	expectNothing(p, deliveries)
	p.must(ch.TxCommit())
	p.wantEqual("body", string(receive(p, deliveries).Body), "b")
}

func recoverInTransaction(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b")
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 90, 10)
	w.expect(1, 90, 11)
	for range 2 {
		w.send(1, 60, 70, "short", 0, "shortstr", q, "octet", 0)
		w.expect(1, 60, 71)
		w.read()
		w.read()
	}
	w.send(1, 60, 80, "longlong", 1, "octet", 0)
	w.send(1, 60, 110, "octet", 1)
	w.expect(1, 60, 111)
	p.wantEqual("recovered", p.bodies(q, 1), []string{"b"})
	p.expectEmpty(q)
	w.send(1, 90, 30)
	w.expect(1, 90, 31)
	w.send(1, 60, 110, "octet", 1)
	w.expect(1, 60, 111)
	p.wantEqual("recovered after the rollback", p.bodies(q, 1), []string{"a"})
}

func returnBeforeCommitOK(p *probe) {
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 90, 10)
	w.expect(1, 90, 11)
	w.send(1, 60, 40, "short", 0, "shortstr", "", "shortstr", p.name(), "octet", 1)
	w.header(1, 0, "\x00\x00")
	w.send(1, 90, 20)
	w.expect(1, 60, 50)
	w.read() // header
	w.expect(1, 90, 21)
}

func routingBeforeCommit(p *probe) {
	name, ch := p.name(), p.transaction()
	p.must(ch.Publish("", name, false, false, textMessage("early")))
	p.must(ch.Qos(1, 0, false)) // its reply shows that the publish was handled
	p.queueNamed(name, nil)
	p.must(ch.Publish("", name, false, false, textMessage("in time")))
	p.must(ch.TxCommit())
	p.wantEqual("bodies", p.bodies(name, 1), []string{"in time"})
	p.expectEmpty(name)
}

// commitToDeletedQueue commits a publish to a queue that is deleted before.
func (p *probe) commitToDeletedQueue(kind string) error {
	p.Helper()
	q, ch := p.queue(amqp.Table{"x-queue-type": kind}), p.transaction()
	p.must(ch.Publish("", q, false, false, textMessage("a")))
	p.must(ch.Qos(1, 0, false)) // answered, so published
	_, err := p.newConnection().ch.QueueDelete(q, false, false, false)
	p.must(err)
	return ch.TxCommit()
}

func queueDeletedBeforeCommit(p *probe) {
	p.expectError(p.commitToDeletedQueue("classic"), 406, "PRECONDITION_FAILED - partial tx completion")
	p.must(p.commitToDeletedQueue("quorum"))
}

func anyQueueDeletedBeforeCommit(p *probe) {
	for _, kind := range []string{"classic", "quorum"} {
		err := p.newConnection().commitToDeletedQueue(kind)
		var exception *amqp.Error
		if !errors.As(err, &exception) || exception.Code != 506 || !strings.HasPrefix(exception.Reason, "RESOURCE_ERROR - failed to deliver message: {not_found,") {
			p.Fatalf("%s: error is %v", kind, err) // its text is a term of Erlang, in several lines
		}
	}
}

func secondTransaction(p *probe) {
	q, ch := p.queue(nil), p.transaction()
	for _, body := range []string{"a", "b", "c"} {
		p.must(ch.Publish("", q, false, false, textMessage(body)))
		p.must(ch.TxCommit())
	}
	for range 3 {
		p.must(p.getWith(ch, q, false).Ack(false))
		p.must(ch.TxCommit())
	}
	p.must(ch.Close())
	p.expectEmpty(q)
}

func commitBoth(p *probe) {
	from, to, ch := p.queue(nil), p.queue(nil), p.transaction()
	p.publishTexts(from, "a")
	d := p.getWith(ch, from, false)
	for _, body := range []string{"dropped", "sent"} {
		p.must(ch.Publish("", to, false, false, textMessage(body)))
		p.must(d.Ack(false))
		if body == "dropped" {
			p.must(ch.TxRollback())
		}
	}
	p.must(ch.TxCommit())
	p.must(ch.Close())
	p.expectEmpty(from)
	p.wantEqual("sent", p.bodies(to, 1), []string{"sent"})
	p.expectEmpty(to)
}

func transactionNoSuchExchange(p *probe) {
	x := p.name()
	p.expectChannelClose(404, "NOT_FOUND - no "+p.exchangeDescription(x), func(ch *amqp.Channel) {
		p.must(ch.Tx())
		_ = ch.Publish(x, "", false, false, textMessage("a"))
	})
}

func transactionUnknownTag(p *probe) {
	p.expectChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 1", func(ch *amqp.Channel) {
		p.must(ch.Tx())
		_ = ch.Ack(1, false)
	})
}

func tagTwiceInTransaction(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a")
	p.expectChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 1", func(ch *amqp.Channel) {
		p.must(ch.Tx())
		p.must(p.getWith(ch, q, false).Ack(false))
		_ = ch.Ack(1, false)
	})
	p.wantEqual("the first was not committed", p.bodies(q, 1), []string{"a"})
}

func commitRefused(p *probe) {
	full, free := p.queue(amqp.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"}), p.queue(nil)
	ch := p.transaction()
	p.must(ch.Publish("", full, false, false, textMessage("a")))
	p.must(ch.Publish("", free, false, false, textMessage("b")))
	p.expectError(ch.TxCommit(), 406, "PRECONDITION_FAILED - partial tx completion")
	p.wantEqual("the other one", p.bodies(free, 1), []string{"b"})
}

func txSelectTwice(p *probe) {
	q, ch := p.queue(nil), p.transaction()
	p.must(ch.Publish("", q, false, false, textMessage("a")))
	p.must(ch.Tx())
	p.must(ch.TxCommit())
	p.wantEqual("bodies", p.bodies(q, 1), []string{"a"})
}

func emptyCommit(p *probe) {
	ch := p.transaction()
	p.must(ch.TxCommit())
	p.must(ch.TxRollback())
}

func commitWithoutSelect(p *probe) {
	p.expectError(p.channel().TxCommit(), 406, "PRECONDITION_FAILED - channel is not transactional")
	p.expectError(p.channel().TxRollback(), 406, "PRECONDITION_FAILED - channel is not transactional")
}

func transactionWithConfirms(p *probe) {
	ch := p.channel()
	p.must(ch.Confirm(false))
	p.expectError(ch.Tx(), 406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode")
	p.expectError(p.transaction().Confirm(false), 406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode")
}

// transaction opens a channel with tx.select.
func (p *probe) transaction() *amqp.Channel {
	p.Helper()
	ch := p.channel()
	p.must(ch.Tx())
	return ch
}
