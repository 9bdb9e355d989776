package brokertest

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func queues() []behaviour {
	return []behaviour{
		{name: "declare counts messages and consumers", check: declareCounts},
		{name: "server-named", check: serverNamedQueue},
		{name: "an empty name is the queue declared last", check: emptyQueueName},
		{name: "an empty name without a declaration", check: emptyQueueNameUndeclared},
		{name: "exclusive locks others out", check: exclusiveQueue},
		{name: "exclusive goes with its connection", check: exclusiveQueueEnds},
		{name: "auto-delete goes with its last consumer", check: autoDeleteWithConsumer},
		{name: "auto-delete goes with its last channel", check: autoDeleteWithChannel},
		{name: "passive declare of none", check: queuePassiveDeclareOfNone},
		{name: "passive declare looks at the name only", check: passiveQueueDeclare},
		{name: "passive declare of no name", check: passiveDeclareWithoutName},
		{name: "reserved names", check: queueReservedNames},
		{name: "declare again differently", check: queueEquivalence},
		{name: "declare again as another type", since: "4.0", check: declareAsAnotherType},
		{name: "arguments are checked", since: "4.0", check: queueArguments},
		{name: "arguments of classic queues are checked", since: "4.0", until: "4.3", check: classicQueueArguments},
		{name: "arguments that RabbitMQ 4.3 checks", since: "4.3", check: newestQueueArguments},
		{name: "quorum is durable, shared and lasting", since: "4.0", check: quorumProperties},
		{name: "unknown arguments are ignored", check: unknownArguments},
		{name: "purge", check: purgeQueue},
		{name: "delete counts messages", check: deleteCounts},
		{name: "delete of none is fine", check: deleteMissingQueue},
		{name: "delete if unused and if empty", check: deleteIfUnusedOrEmpty},
		{name: "a quorum queue cannot be deleted if unused or if empty", since: "4.0", check: deleteQuorumIfUnusedOrEmpty},
		{name: "expires unused", check: unusedQueueExpires},
		{name: "does not expire while consumed", check: consumedQueueStays},
		{name: "priorities", check: messagePriorities},
		{name: "a quorum queue has no priorities", until: "4.0", check: noPrioritiesOfQuorum},
		{name: "two priorities of a quorum queue take turns", since: "4.0", until: "4.3", check: prioritiesOfQuorumTakeTurns},
		{name: "priorities of a quorum queue", since: "4.3", check: prioritiesOfQuorum},
		{name: "expiry behind a higher priority of a quorum queue", since: "4.3", check: expiryByPriorityOfQuorum},
		{name: "a quorum queue has no maximum priority", check: noMaxPriorityOfQuorum},
	}
}

func declareCounts(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b")
	p.must(p.ch.Qos(1, 0, false))
	receive(p, p.consume(p.ch, q))
	state, err := p.ch.QueueDeclarePassive(q, true, false, false, false, nil)
	p.must(err)
	p.wantEqual("ready and consumers", []int{state.Messages, state.Consumers}, []int{1, 1})
}

func serverNamedQueue(p *probe) {
	q, err := p.ch.QueueDeclare("", false, true, true, false, nil)
	p.must(err)
	if !strings.HasPrefix(q.Name, "amq.gen-") {
		p.Fatalf("name is %q", q.Name)
	}
	p.publish("", q.Name, textMessage("a"))
	p.get(q.Name)
}

func emptyQueueName(p *probe) {
	q, x := p.queue(nil), p.exchange("direct", nil)
	p.must(p.ch.QueueBind("", "", x, false, nil))
	p.publish(x, q, textMessage("a"))
	p.wantEqual("body", string(p.get("").Body), "a")
}

func emptyQueueNameUndeclared(p *probe) {
	for name, use := range map[string]func(ch *amqp.Channel) error{
		"purge":   func(ch *amqp.Channel) error { _, err := ch.QueuePurge("", false); return err },
		"delete":  func(ch *amqp.Channel) error { _, err := ch.QueueDelete("", false, false, false); return err },
		"bind":    func(ch *amqp.Channel) error { return ch.QueueBind("", "k", "amq.direct", false, nil) },
		"unbind":  func(ch *amqp.Channel) error { return ch.QueueUnbind("", "k", "amq.direct", nil) },
		"get":     func(ch *amqp.Channel) error { _, _, err := ch.Get("", true); return err },
		"consume": func(ch *amqp.Channel) error { _, err := ch.Consume("", "", true, false, false, false, nil); return err },
	} {
		p.Log(name)
		p.expectError(use(p.channel()), 404, "NOT_FOUND - no previously declared queue")
	}
}

func exclusiveQueue(p *probe) {
	name := p.name()
	_, err := p.ch.QueueDeclare(name, false, false, true, false, nil)
	p.must(err)
	locked := "RESOURCE_LOCKED - cannot obtain exclusive access to locked " + p.queueDescription(name) +
		". It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."
	if len(locked) > 255 {
		locked = locked[:252] + "..."
	}
	o := p.newConnection()
	_, err = o.ch.QueueDeclarePassive(name, false, false, true, false, nil)
	p.expectError(err, 405, locked)
	_, err = o.channel().QueueDeclare(name, false, false, true, false, nil)
	p.expectError(err, 405, locked)
	_, err = o.channel().Consume(name, "", false, false, false, false, nil)
	p.expectError(err, 405, locked)
	_, err = o.channel().QueueDelete(name, false, false, false)
	p.expectError(err, 405, locked)
	_, _, err = o.channel().Get(name, true)
	p.expectError(err, 405, locked)
	p.expectError(o.channel().QueueBind(name, "k", "amq.direct", false, nil), 405, locked)
	p.bind(name, "k", "amq.direct", nil)
	p.expectError(o.channel().QueueUnbind(name, "k", "amq.direct", nil), 405, locked)
	p.must(o.channel().QueueUnbind(name, "never", "amq.direct", nil))
	_, err = p.channel().QueueDeclare(name, false, false, false, false, nil)
	p.expectError(err, 405, locked)
}

func exclusiveQueueEnds(p *probe) {
	o, name := p.newConnection(), p.name()
	_, err := o.ch.QueueDeclare(name, false, false, true, false, nil)
	p.must(err)
	p.must(o.conn.Close())
	_, err = p.ch.QueueDeclarePassive(name, false, false, true, false, nil)
	p.expectError(err, 404, "NOT_FOUND - no "+p.queueDescription(name))
}

func autoDeleteWithConsumer(p *probe) {
	name := p.name()
	_, err := p.ch.QueueDeclare(name, true, true, false, false, nil)
	p.must(err)
	_, err = p.ch.Consume(name, "one", false, false, false, false, nil)
	p.must(err)
	_, err = p.ch.Consume(name, "two", false, false, false, false, nil)
	p.must(err)
	p.must(p.ch.Cancel("one", false))
	_, err = p.ch.QueueDeclarePassive(name, true, true, false, false, nil)
	p.must(err)
	p.must(p.ch.Cancel("two", false))
	p.awaitDeleted(name)
}

func autoDeleteWithChannel(p *probe) {
	name, ch := p.name(), p.channel()
	_, err := ch.QueueDeclare(name, true, true, false, false, nil)
	p.must(err)
	p.consume(ch, name)
	p.must(ch.Close())
	p.awaitDeleted(name)
}

func queuePassiveDeclareOfNone(p *probe) {
	name := p.name()
	_, err := p.ch.QueueDeclarePassive(name, true, false, false, false, nil)
	p.expectError(err, 404, "NOT_FOUND - no "+p.queueDescription(name))
}

func passiveQueueDeclare(p *probe) {
	q := p.queue(amqp.Table{"x-message-ttl": int32(1000)})
	_, err := p.ch.QueueDeclarePassive(q, false, true, false, false, nil)
	p.must(err)
}

func passiveDeclareWithoutName(p *probe) {
	p.queue(nil)
	_, err := p.ch.QueueDeclarePassive("", true, false, false, false, nil)
	p.expectError(err, 404, "NOT_FOUND - no "+p.queueDescription(""))
}

func queueReservedNames(p *probe) {
	_, err := p.ch.QueueDeclare("amq.mine", true, false, false, false, nil)
	p.expectError(err, 403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'")
}

func declareAsAnotherType(p *probe) {
	q := p.queue(nil)
	_, err := p.ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	p.expectError(err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for "+p.queueDescription(q)+
		": received 'quorum' but current is 'classic'")
}

func unknownArguments(p *probe) {
	q := p.queue(amqp.Table{"x-whatever": "1"})
	_, err := p.ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-other": int32(2)})
	p.must(err)
}

func purgeQueue(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b", "c")
	taken := p.getWith(p.ch, q, false)
	n, err := p.ch.QueuePurge(q, false)
	p.must(err)
	p.wantEqual("purged", n, 2)
	p.must(taken.Nack(false, true))
	p.wantEqual("the unacknowledged one stays", p.bodies(q, 1), []string{"a"})
}

func deleteCounts(p *probe) {
	q := p.queue(nil)
	p.publishTexts(q, "a", "b")
	n, err := p.ch.QueueDelete(q, false, false, false)
	p.must(err)
	p.wantEqual("deleted", n, 2)
}

func deleteMissingQueue(p *probe) {
	n, err := p.ch.QueueDelete(p.name(), false, false, false)
	p.must(err)
	p.wantEqual("deleted", n, 0)
}

func deleteIfUnusedOrEmpty(p *probe) {
	q := p.queue(nil)
	p.consume(p.ch, q)
	_, err := p.channel().QueueDelete(q, true, false, false)
	p.expectError(err, 406, "PRECONDITION_FAILED - "+p.queueDescription(q)+" in use")
	p.must(p.ch.Close())
	p.ch = p.channel()
	p.publishTexts(q, "a")
	_, err = p.channel().QueueDelete(q, true, true, false)
	p.expectError(err, 406, "PRECONDITION_FAILED - "+p.queueDescription(q)+" not empty")
	p.get(q)
	_, err = p.ch.QueueDelete(q, true, true, false)
	p.must(err)
}

func unusedQueueExpires(p *probe) {
	args := amqp.Table{"x-expires": int32(1500)}
	q := p.queue(args)
	p.publishTexts(q, "goes too")
	for range 5 { // a passive declaration is a use
		time.Sleep(400 * time.Millisecond)
		_, err := p.ch.QueueDeclare(q, true, false, false, false, args)
		p.must(err)
	}
	time.Sleep(2 * time.Second)
	p.awaitDeleted(q)
}

func consumedQueueStays(p *probe) {
	q := p.queue(amqp.Table{"x-expires": int32(1000)})
	p.consume(p.ch, q)
	time.Sleep(1500 * time.Millisecond)
	p.awaitReady(q, 0)
	p.must(p.ch.Close())
	p.ch = p.channel()
	time.Sleep(1500 * time.Millisecond)
	p.awaitDeleted(q)
}

func messagePriorities(p *probe) {
	q := p.queue(amqp.Table{"x-max-priority": int32(5)})
	for i, priority := range []uint8{0, 9, 1, 5, 1} {
		p.publishConfirmed("", q, amqp.Publishing{Priority: priority, Body: fmt.Append(nil, i)})
	}
	p.wantEqual("order", p.bodies(q, 5), []string{"1", "3", "2", "4", "0"})
}

// publishPriorities publishes messages whose bodies are their priorities, of which 0 is
// none: the client does not send it.
func (p *probe) publishPriorities(queue string, priorities ...uint8) {
	p.Helper()
	for _, priority := range priorities {
		p.publishConfirmed("", queue, amqp.Publishing{Priority: priority, Body: fmt.Append(nil, priority)})
	}
}

func noPrioritiesOfQuorum(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishPriorities(q, 0, 9, 1, 5)
	p.wantEqual("order", p.bodies(q, 4), []string{"0", "9", "1", "5"})
}

func prioritiesOfQuorumTakeTurns(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishPriorities(q, 0, 1, 2, 3, 4, 5, 6, 9, 10, 30, 31, 32, 255)
	p.wantEqual("order", p.bodies(q, 13), []string{"5", "6", "0", "9", "10", "1", "30", "31", "2", "32", "255", "3", "4"})
}

func prioritiesOfQuorum(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishPriorities(q, 0, 1, 2, 3, 4, 5, 6, 9, 10, 30, 31, 32, 255)
	p.wantEqual("order", p.bodies(q, 13), []string{"31", "32", "255", "30", "10", "9", "6", "5", "0", "4", "3", "2", "1"})
	p.publishPriorities(q, 1, 2)
	d := p.getWith(p.ch, q, false)
	p.wantEqual("first", string(d.Body), "2")
	p.publishPriorities(q, 9)
	p.must(d.Reject(true))
	p.wantEqual("a requeued message is before all", p.bodies(q, 3), []string{"2", "9", "1"})
}

func expiryByPriorityOfQuorum(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	p.publishPriorities(q, 9)
	p.publishConfirmed("", q, amqp.Publishing{Expiration: "50", Body: []byte("expires")})
	p.awaitReady(q, 1)
	p.wantEqual("left", p.bodies(q, 1), []string{"9"})
}

func noMaxPriorityOfQuorum(p *probe) {
	name := p.name()
	_, err := p.channel().QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-max-priority": int32(1)})
	p.expectError(err, 406, "PRECONDITION_FAILED - invalid arg 'x-max-priority' for "+p.queueDescription(name)+" of queue type rabbit_quorum_queue")
}

func deleteQuorumIfUnusedOrEmpty(p *probe) {
	q := p.queue(amqp.Table{"x-queue-type": "quorum"})
	for flag, unused := range map[string]bool{"if-unused": true, "if-empty": false} {
		p.expectConnectionClose(540, "NOT_IMPLEMENTED - cannot delete "+p.queueDescription(q)+
			". queue.delete operations with "+flag+" flag set are not supported by quorum queues", func(conn *amqp.Connection) {
			ch, err := conn.Channel()
			p.must(err)
			_, _ = ch.QueueDelete(q, unused, !unused, false)
		})
	}
}

// awaitDeleted waits until a queue is deleted.
func (p *probe) awaitDeleted(name string) {
	p.Helper()
	var err error
	eventually(1500*time.Millisecond, func() bool { // each declaration starts x-expires again
		_, err = p.channel().QueueDeclarePassive(name, true, true, false, false, nil)
		return err != nil
	})
	p.expectError(err, 404, "NOT_FOUND - no "+p.queueDescription(name))
}

func queueEquivalence(p *probe) {
	args := func(more amqp.Table) amqp.Table {
		all := amqp.Table{"x-message-ttl": int32(1000), "x-dead-letter-exchange": "x"}
		for name, value := range more {
			all[name] = value
		}
		return all
	}
	q := p.queue(args(nil))
	words := "PRECONDITION_FAILED - inequivalent arg '%s' for " + p.queueDescription(q) + ": received "
	declare := func(durable, autoDelete bool, args amqp.Table) error {
		_, err := p.channel().QueueDeclare(q, durable, autoDelete, false, false, args)
		return err
	}
	p.must(declare(true, false, args(amqp.Table{"x-message-ttl": int64(1000)})))
	p.must(declare(true, false, args(amqp.Table{"x-queue-type": "classic"})))
	p.expectError(declare(false, false, args(nil)), 406, fmt.Sprintf(words, "durable")+"'false' but current is 'true'")
	p.expectError(declare(true, true, args(nil)), 406, fmt.Sprintf(words, "auto_delete")+"'true' but current is 'false'")
	p.expectError(declare(true, false, args(amqp.Table{"x-message-ttl": int32(2000)})), 406,
		fmt.Sprintf(words, "x-message-ttl")+"'2000' but current is '1000'")
	p.expectError(declare(true, false, amqp.Table{"x-message-ttl": int32(1000)}), 406,
		fmt.Sprintf(words, "x-dead-letter-exchange")+"none but current is the value 'x' of type 'longstr'")
	p.expectError(declare(true, false, args(amqp.Table{"x-max-length": int64(5)})), 406,
		fmt.Sprintf(words, "x-max-length")+"the value '5' of type 'long' but current is none")
	p.expectError(declare(true, false, args(amqp.Table{"x-queue-mode": "lazy"})), 406,
		fmt.Sprintf(words, "x-queue-mode")+"the value 'lazy' of type 'longstr' but current is none")
}

func queueArguments(p *probe) {
	for _, c := range []struct {
		name  string
		value any
		text  string
	}{
		{"x-message-ttl", "soon", `"expected integer, got longstr"`},
		{"x-message-ttl", int32(-1), "{value_negative,-1}"},
		{"x-message-ttl", int64(400000000000), "{value_too_large,400000000000}"},
		{"x-expires", int32(0), "{value_zero,0}"},
		{"x-max-length", int32(-5), "{value_negative,-5}"},
		{"x-overflow", "explode", "invalid_overflow"},
		{"x-overflow", int32(1), "{unacceptable_type,signedint}"},
		{"x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"},
		{"x-single-active-consumer", "yes", "{unacceptable_type,longstr}"},
		{"x-max-priority", int32(300), "{max_value_exceeded,300}"},
		{"x-queue-version", int32(7), `"unsupported queue version '7'"`},
		{"x-queue-version", "2", `"expected integer, got longstr"`},
		{"x-queue-leader-locator", "odd", "invalid_queue_locator_arg"},
		{"x-queue-leader-locator", int32(1), "{unacceptable_type,signedint}"},
		{"x-queue-type", "odd", `"unsupported queue type 'odd'"`},
		{"x-queue-type", int32(1), "{unacceptable_type,signedint}"},
	} {
		p.expectRefusedArgument(amqp.Table{c.name: c.value}, c.name, c.text)
	}
	for kind, unfit := range map[string][]string{
		"quorum": {
			"x-max-priority", "x-queue-version", "x-queue-mode", "x-queue-master-locator",
			"x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size",
		},
		"classic": {
			"x-delivery-limit", "x-dead-letter-strategy", "x-max-in-memory-length", "x-max-in-memory-bytes",
			"x-quorum-initial-group-size", "x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size",
		},
	} {
		for _, argument := range unfit {
			queue := p.name()
			_, err := p.channel().QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": kind, argument: int32(3)})
			p.expectError(err, 406, fmt.Sprintf("PRECONDITION_FAILED - invalid arg '%s' for %s of queue type rabbit_%s_queue", argument, p.queueDescription(queue), kind))
		}
	}
	p.queue(amqp.Table{"x-queue-version": int32(2), "x-queue-mode": "lazy", "x-queue-leader-locator": "balanced"})
	p.queue(amqp.Table{
		"x-queue-type": "quorum", "x-queue-leader-locator": "client-local", "x-max-in-memory-length": int32(1),
		"x-max-in-memory-bytes": int32(1), "x-quorum-initial-group-size": int32(1),
	})
	name := p.name()
	_, err := p.channel().QueueDeclare(name, true, false, false, false, amqp.Table{"x-dead-letter-exchange": int32(1)})
	p.expectError(err, 406, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in "+p.queueDescription(name))
}

// expectRefusedArgument fails unless an argument is refused with a text.
func (p *probe) expectRefusedArgument(args amqp.Table, argument, text string) {
	p.Helper()
	name := p.name()
	_, err := p.channel().QueueDeclare(name, true, false, false, false, args)
	p.expectError(err, 406, fmt.Sprintf("PRECONDITION_FAILED - invalid arg '%s' for %s: %s", argument, p.queueDescription(name), text))
}

func classicQueueArguments(p *probe) {
	p.expectRefusedArgument(amqp.Table{"x-queue-mode": "odd"}, "x-queue-mode", `"unsupported queue mode 'odd'"`)
	p.expectRefusedArgument(amqp.Table{"x-queue-mode": int32(1)}, "x-queue-mode", "{unacceptable_type,signedint}")
	p.queue(amqp.Table{"x-queue-version": int32(1)})
}

func newestQueueArguments(p *probe) {
	p.queue(amqp.Table{"x-queue-mode": "odd"})
	p.expectRefusedArgument(amqp.Table{"x-queue-version": int32(1)}, "x-queue-version", `"unsupported queue version '1'"`)
	p.queue(amqp.Table{"x-queue-type": "quorum", "x-consumer-timeout": int32(60_000)})
	p.expectRefusedArgument(amqp.Table{"x-queue-type": "quorum", "x-consumer-timeout": "soon"}, "x-consumer-timeout", `"expected integer, got longstr"`)
	name := p.name()
	_, err := p.channel().QueueDeclare(name, true, false, false, false, amqp.Table{"x-consumer-timeout": int32(60_000)})
	p.expectError(err, 406, "PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for "+p.queueDescription(name)+" of queue type rabbit_classic_queue")
}

func quorumProperties(p *probe) {
	quorum := amqp.Table{"x-queue-type": "quorum"}
	for _, c := range []struct {
		durable, autoDelete, exclusive bool
		text                           string
	}{
		{false, false, false, "invalid property 'non-durable' for %s"},
		{true, false, true, "invalid property 'exclusive-owner' for %s"},
	} {
		name := p.name()
		_, err := p.channel().QueueDeclare(name, c.durable, c.autoDelete, c.exclusive, false, quorum)
		p.expectError(err, 406, "PRECONDITION_FAILED - "+fmt.Sprintf(c.text, p.queueDescription(name)))
	}
	_, err := p.channel().QueueDeclare("", true, false, false, false, quorum)
	p.expectError(err, 406, "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue")
	p.queue(quorum)
}
