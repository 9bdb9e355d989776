package brokertest

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

func exchanges() []behaviour {
	return []behaviour{
		{name: "default routes by queue name", check: defaultExchangeRouting},
		{name: "direct routes by equal key", check: directExchangeRouting},
		{name: "fanout ignores the key", check: fanoutExchangeRouting},
		{name: "a queue bound twice gets one copy", check: queueBoundTwice},
		{name: "topic patterns", check: topicPatterns},
		{name: "headers patterns", since: "4.0", check: headersPatterns},
		{name: "headers x-match is checked", check: headersXMatch},
		{name: "exchange to exchange keeps exchange and key", check: exchangeToExchange},
		{name: "exchanges bound in a circle", check: exchangeCircle},
		{name: "exchange unbind", check: exchangeUnbind},
		{name: "unbind needs equal arguments", check: unbindArguments},
		{name: "alternate exchange takes the unroutable", check: alternateExchange},
		{name: "an exchange that is its own alternate exchange returns", check: ownAlternateExchange},
		{name: "an exchange bound to itself returns past its alternate exchange", check: boundToItself},
		{name: "internal refuses publishers", check: internalExchange},
		{name: "auto-delete goes with its last binding", check: exchangeAutoDelete},
		{name: "auto-delete goes with its last queue", check: exchangeAutoDeleteWithQueue},
		{name: "predeclared", check: predeclaredExchanges},
		{name: "passive declare looks at the name only", check: passiveExchangeDeclare},
		{name: "passive declare of none", check: exchangePassiveDeclareOfNone},
		{name: "declare again differently", check: exchangeEquivalence},
		{name: "delete of none is fine", check: func(p *probe) { p.must(p.ch.ExchangeDelete(p.name(), false, false)) }},
		{name: "delete if unused", check: deleteExchangeIfUnused},
		{name: "reserved names", check: exchangeReservedNames},
		{name: "bind what is not there", check: bindMissing},
		{name: "unbind what is not there", check: unbindMissing},
	}
}

func defaultExchangeRouting(p *probe) {
	q := p.queue(nil)
	p.publish("", q, textMessage("a"))
	d := p.get(q)
	p.wantEqual("exchange and key", []string{d.Exchange, d.RoutingKey}, []string{"", q})
}

func directExchangeRouting(p *probe) {
	x, q := p.exchange("direct", nil), p.queue(nil)
	p.bind(q, "a", x, nil)
	p.bind(q, "b", x, nil)
	for _, key := range []string{"a", "b", "c"} {
		p.publish(x, key, textMessage(key))
	}
	p.wantEqual("bodies", p.bodies(q, 2), []string{"a", "b"})
	p.expectEmpty(q)
}

func fanoutExchangeRouting(p *probe) {
	x, q1, q2 := p.exchange("fanout", nil), p.queue(nil), p.queue(nil)
	p.bind(q1, "x", x, nil)
	p.bind(q2, "", x, nil)
	p.publish(x, "anything", textMessage("a"))
	p.get(q1)
	p.get(q2)
}

func queueBoundTwice(p *probe) {
	x, q := p.exchange("topic", nil), p.queue(nil)
	p.bind(q, "#", x, nil)
	p.bind(q, "a.*", x, nil)
	p.bind(q, "a.b", x, nil)
	p.publish(x, "a.b", textMessage("a"))
	p.get(q)
	p.expectEmpty(q)
}

func headersXMatch(p *probe) {
	x, q := p.exchange("headers", nil), p.queue(nil)
	err := p.ch.QueueBind(q, "", x, false, amqp.Table{"x-match": "some"})
	p.expectError(err, 406, `PRECONDITION_FAILED - Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x`)
	p.ch = p.channel()
	err = p.ch.ExchangeBind(p.exchange("fanout", nil), "", x, false, amqp.Table{"x-match": int32(1)})
	p.expectError(err, 406, "PRECONDITION_FAILED - Invalid x-match field type signedint (value 1); expected longstr")
}

func exchangeToExchange(p *probe) {
	from, to, q := p.exchange("topic", nil), p.exchange("fanout", nil), p.queue(nil)
	p.must(p.ch.ExchangeBind(to, "a.#", from, false, nil))
	p.bind(q, "", to, nil)
	p.publish(from, "b", textMessage("no"))
	p.publish(from, "a.b", textMessage("yes"))
	d := p.get(q)
	p.wantEqual("delivery", []string{string(d.Body), d.Exchange, d.RoutingKey}, []string{"yes", from, "a.b"})
}

func exchangeCircle(p *probe) {
	a, b, q := p.exchange("fanout", nil), p.exchange("fanout", nil), p.queue(nil)
	p.must(p.ch.ExchangeBind(b, "", a, false, nil))
	p.must(p.ch.ExchangeBind(a, "", b, false, nil))
	p.bind(q, "", b, nil)
	p.publish(a, "", textMessage("once"))
	p.get(q)
	p.expectEmpty(q)
}

func exchangeUnbind(p *probe) {
	from, to, q := p.exchange("fanout", nil), p.exchange("fanout", nil), p.queue(nil)
	p.must(p.ch.ExchangeBind(to, "", from, false, nil))
	p.bind(q, "", to, nil)
	p.must(p.ch.ExchangeUnbind(to, "", from, false, nil))
	p.publish(from, "", textMessage("a"))
	p.expectEmpty(q)
}

func unbindArguments(p *probe) {
	x, q := p.exchange("direct", nil), p.queue(nil)
	p.bind(q, "k", x, amqp.Table{"a": "1", "b": int32(2)})
	p.must(p.ch.QueueUnbind(q, "k", x, nil))
	p.publish(x, "k", textMessage("still"))
	p.get(q)
	p.must(p.ch.QueueUnbind(q, "k", x, amqp.Table{"b": int32(2), "a": "1"}))
	p.publish(x, "k", textMessage("gone"))
	p.expectEmpty(q)
}

func alternateExchange(p *probe) {
	spare, q := p.exchange("fanout", nil), p.queue(nil)
	x := p.exchange("direct", amqp.Table{"alternate-exchange": spare})
	p.bind(q, "", spare, nil)
	taken := p.queue(nil)
	p.bind(taken, "k", x, nil)
	p.publish(x, "k", textMessage("routed"))
	p.publish(x, "none", textMessage("spare"))
	d := p.get(q)
	p.wantEqual("delivery", []string{string(d.Body), d.Exchange, d.RoutingKey}, []string{"spare", x, "none"})
}

// kindsOfExchanges are the types, each with a binding that matches the routing key "k".
func kindsOfExchanges() map[string]binding {
	return map[string]binding{"direct": {"k", nil}, "fanout": {"", nil}, "topic": {"#", nil}, "headers": {"", amqp.Table{"x-match": "all"}}}
}

type binding struct {
	key  string
	args amqp.Table
}

// expectReturn publishes with the routing key "k" and wants the message back.
func (p *probe) expectReturn(exchange string) {
	p.Helper()
	ch := p.channel()
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	p.must(ch.Publish(exchange, "k", true, false, textMessage(exchange)))
	p.wantEqual("returned by "+exchange, receive(p, returns).ReplyText, "NO_ROUTE")
}

func ownAlternateExchange(p *probe) {
	for kind := range kindsOfExchanges() {
		x := p.name()
		p.must(p.ch.ExchangeDeclare(x, kind, true, false, false, false, amqp.Table{"alternate-exchange": x}))
		p.deleteExchange(x)
		p.expectReturn(x)
	}
}

func boundToItself(p *probe) {
	spare, taken := p.exchange("fanout", nil), p.queue(nil)
	p.bind(taken, "", spare, nil)
	for kind, every := range kindsOfExchanges() {
		x := p.exchange(kind, amqp.Table{"alternate-exchange": spare})
		p.must(p.ch.ExchangeBind(x, every.key, x, false, every.args))
		p.expectReturn(x)
		q := p.queue(nil)
		p.bind(q, every.key, x, every.args)
		p.publish(x, "k", textMessage("once"))
		p.get(q)
		p.expectEmpty(q)
	}
	p.expectEmpty(taken)
}

func internalExchange(p *probe) {
	x := p.name()
	p.must(p.ch.ExchangeDeclare(x, "fanout", true, false, true, false, nil))
	p.deleteExchange(x)
	p.expectChannelClose(403, "ACCESS_REFUSED - cannot publish to internal "+p.exchangeDescription(x), func(ch *amqp.Channel) {
		_ = ch.Publish(x, "", false, false, textMessage("a"))
	})
}

func exchangeAutoDelete(p *probe) {
	x, q := p.name(), p.queue(nil)
	p.must(p.ch.ExchangeDeclare(x, "fanout", true, true, false, false, nil))
	p.bind(q, "1", x, nil)
	p.bind(q, "2", x, nil)
	p.must(p.ch.QueueUnbind(q, "1", x, nil))
	p.must(p.ch.ExchangeDeclarePassive(x, "fanout", true, true, false, false, nil))
	p.must(p.ch.QueueUnbind(q, "2", x, nil))
	p.expectError(p.ch.ExchangeDeclarePassive(x, "fanout", true, true, false, false, nil), 404, "NOT_FOUND - no "+p.exchangeDescription(x))
}

func exchangeAutoDeleteWithQueue(p *probe) {
	x, q := p.name(), p.queue(nil)
	p.must(p.ch.ExchangeDeclare(x, "fanout", true, true, false, false, nil))
	p.bind(q, "", x, nil)
	_, err := p.ch.QueueDelete(q, false, false, false)
	p.must(err)
	p.expectError(p.ch.ExchangeDeclarePassive(x, "fanout", true, true, false, false, nil), 404, "NOT_FOUND - no "+p.exchangeDescription(x))
}

func predeclaredExchanges(p *probe) {
	for name, kind := range map[string]string{
		"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers", "amq.match": "headers",
	} {
		p.must(p.ch.ExchangeDeclare(name, kind, true, false, false, false, nil))
	}
	p.must(p.ch.ExchangeDeclare("amq.rabbitmq.trace", "topic", true, false, true, false, nil))
}

func passiveExchangeDeclare(p *probe) {
	x := p.exchange("topic", nil)
	p.must(p.ch.ExchangeDeclarePassive(x, "fanout", false, true, true, false, nil))
}

func exchangePassiveDeclareOfNone(p *probe) {
	x := p.name()
	p.expectError(p.ch.ExchangeDeclarePassive(x, "fanout", true, false, false, false, nil), 404, "NOT_FOUND - no "+p.exchangeDescription(x))
}

func deleteExchangeIfUnused(p *probe) {
	x, q := p.exchange("fanout", nil), p.queue(nil)
	p.bind(q, "", x, nil)
	p.expectError(p.ch.ExchangeDelete(x, true, false), 406, "PRECONDITION_FAILED - "+p.exchangeDescription(x)+" in use")
	p.ch = p.channel()
	p.must(p.ch.QueueUnbind(q, "", x, nil))
	p.must(p.ch.ExchangeDelete(x, true, false))
}

func exchangeReservedNames(p *probe) {
	p.expectError(p.ch.ExchangeDeclare("amq.mine", "fanout", true, false, false, false, nil), 403,
		"ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'")
	p.ch = p.channel()
	p.expectError(p.ch.ExchangeDelete("amq.direct", false, false), 403,
		"ACCESS_REFUSED - deletion of system exchange 'amq.direct' in "+p.vhostDescription()+" not allowed")
	p.ch = p.channel()
	p.expectError(p.ch.QueueBind(p.queue(nil), "k", "", false, nil), 403,
		"ACCESS_REFUSED - operation not permitted on the default exchange")
}

func bindMissing(p *probe) {
	x, q, none := p.exchange("fanout", nil), p.queue(nil), p.name()
	p.expectError(p.ch.QueueBind(none, "", x, false, nil), 404, "NOT_FOUND - no "+p.queueDescription(none))
	p.ch = p.channel()
	p.expectError(p.ch.QueueBind(q, "", none, false, nil), 404, "NOT_FOUND - no "+p.exchangeDescription(none))
	p.ch = p.channel()
	p.expectError(p.ch.QueueBind(none, "", none, false, nil), 404, "NOT_FOUND - no "+p.exchangeDescription(none))
	p.ch = p.channel()
	p.expectError(p.ch.ExchangeBind(none, "", x, false, nil), 404, "NOT_FOUND - no "+p.exchangeDescription(none))
}

func unbindMissing(p *probe) {
	x, q, none := p.exchange("fanout", nil), p.queue(nil), p.name()
	p.must(p.ch.QueueUnbind(q, "never", x, nil))
	p.must(p.ch.ExchangeUnbind(x, "never", x, false, nil))
	p.must(p.ch.QueueUnbind(none, "", x, nil))
	p.must(p.ch.QueueUnbind(q, "", none, nil))
}

func topicPatterns(p *probe) {
	x := p.exchange("topic", nil)
	queues := map[string]string{}
	for _, pattern := range []string{"#", "", "*", "a", "a.*", "a.#", "*.b", "#.b", "a.*.c", "a.#.c", "*.*", "#.*", "a.#.#", "a..c"} {
		queues[pattern] = p.queue(nil)
		p.bind(queues[pattern], pattern, x, nil)
	}
	got := map[string]string{}
	keys := []string{"", "a", "b", "a.b", "a.c", "a.b.c", "a.b.b.c", "a..c", ".", "a.", "x.y.z"}
	for _, key := range keys {
		p.publishConfirmed(x, key, textMessage("["+key+"]"))
	}
	for pattern, q := range queues {
		for {
			d, ok, err := p.ch.Get(q, true)
			p.must(err)
			if !ok {
				break
			}
			got[pattern] += string(d.Body)
		}
	}
	p.wantEqual("keys by pattern", got, map[string]string{
		"#":     "[][a][b][a.b][a.c][a.b.c][a.b.b.c][a..c][.][a.][x.y.z]",
		"":      "[]",
		"*":     "[a][b]",
		"a":     "[a]",
		"a.*":   "[a.b][a.c][a.]",
		"a.#":   "[a][a.b][a.c][a.b.c][a.b.b.c][a..c][a.]",
		"*.b":   "[a.b]",
		"#.b":   "[b][a.b]",
		"a.*.c": "[a.b.c][a..c]",
		"a.#.c": "[a.c][a.b.c][a.b.b.c][a..c]",
		"*.*":   "[a.b][a.c][.][a.]",
		"#.*":   "[a][b][a.b][a.c][a.b.c][a.b.b.c][a..c][.][a.][x.y.z]",
		"a.#.#": "[a][a.b][a.c][a.b.c][a.b.b.c][a..c][a.]",
		"a..c":  "[a..c]",
	})
}

func headersPatterns(p *probe) {
	x := p.exchange("headers", nil)
	patterns := map[string]amqp.Table{
		"nothing":         nil,
		"all of nothing":  {"x-match": "all"},
		"any of nothing":  {"x-match": "any"},
		"all":             {"x-match": "all", "a": "1", "b": int32(2)},
		"any":             {"x-match": "any", "a": "1", "b": int32(2)},
		"no x-match":      {"a": "1", "b": int32(2)},
		"presence":        {"x-match": "all", "a": nil},
		"long integer":    {"x-match": "all", "b": int64(2)},
		"float":           {"x-match": "all", "b": float64(2)},
		"bytes":           {"x-match": "all", "a": []byte("1")},
		"x ignored":       {"x-match": "all", "a": "1", "x-b": "no"},
		"x counts":        {"x-match": "all-with-x", "a": "1", "x-b": "yes"},
		"any x":           {"x-match": "any-with-x", "a": "no", "x-b": "yes"},
		"only x, ignored": {"x-match": "any", "x-b": "yes"},
		"bool":            {"x-match": "all", "t": true},
	}
	queues := map[string]string{}
	for name, args := range patterns {
		queues[name] = p.queue(nil)
		p.bind(queues[name], "", x, args)
	}
	for name, headers := range map[string]amqp.Table{
		"none": nil, "a": {"a": "1"}, "ab": {"a": "1", "b": int32(2)}, "other": {"a": "2", "b": int32(3)},
		"xb": {"a": "1", "x-b": "yes"}, "t": {"t": true, "b": int32(2)},
	} {
		p.publishConfirmed(x, "", amqp.Publishing{Headers: headers, Body: []byte(name)})
	}
	got := map[string]string{}
	for name, q := range queues {
		state, err := p.ch.QueueDeclarePassive(q, true, false, false, false, nil)
		p.must(err)
		got[name] = fmt.Sprint(p.sortedBodies(q, state.Messages))
	}
	p.wantEqual("messages by pattern", got, map[string]string{
		"nothing":         "[a ab none other t xb]",
		"all of nothing":  "[a ab none other t xb]",
		"any of nothing":  "[]",
		"all":             "[ab]",
		"any":             "[a ab t xb]",
		"no x-match":      "[ab]",
		"presence":        "[a ab other xb]",
		"long integer":    "[ab t]",
		"float":           "[]",
		"bytes":           "[a ab xb]",
		"x ignored":       "[a ab xb]",
		"x counts":        "[xb]",
		"any x":           "[xb]",
		"only x, ignored": "[]",
		"bool":            "[t]",
	})
}

func exchangeEquivalence(p *probe) {
	x := p.exchange("topic", amqp.Table{"alternate-exchange": "amq.fanout"})
	same := amqp.Table{"alternate-exchange": "amq.fanout"}
	words := "PRECONDITION_FAILED - inequivalent arg '%s' for " + p.exchangeDescription(x) + ": received "
	p.must(p.ch.ExchangeDeclare(x, "topic", true, false, false, false, same))
	for _, c := range []struct {
		err  error
		text string
	}{
		{p.channel().ExchangeDeclare(x, "fanout", true, false, false, false, same), fmt.Sprintf(words, "type") + "'fanout' but current is 'topic'"},
		{p.channel().ExchangeDeclare(x, "topic", false, false, false, false, same), fmt.Sprintf(words, "durable") + "'false' but current is 'true'"},
		{p.channel().ExchangeDeclare(x, "topic", true, true, false, false, same), fmt.Sprintf(words, "auto_delete") + "'true' but current is 'false'"},
		{p.channel().ExchangeDeclare(x, "topic", true, false, true, false, same), fmt.Sprintf(words, "internal") + "'true' but current is 'false'"},
		{
			p.channel().ExchangeDeclare(x, "topic", true, false, false, false, nil),
			fmt.Sprintf(words, "alternate-exchange") + "none but current is the value 'amq.fanout' of type 'longstr'",
		},
	} {
		p.expectError(c.err, 406, c.text)
	}
}
