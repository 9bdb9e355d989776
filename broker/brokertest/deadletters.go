package brokertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

func deadLetters() []behaviour {
	return []behaviour{
		{name: "rejected", check: func(p *probe) {
			dead := p.queue(nil)
			q := p.queue(deadTo("", dead))
			p.publishConfirmed("", q, amqp.Publishing{
				Body: []byte("a"), MessageId: "m", Headers: amqp.Table{"mine": int8(3)}, DeliveryMode: 2,
			})
			p.must(p.getWith(p.ch, q, false).Nack(false, false))
			d := p.get(dead)
			p.equal("delivery", []any{string(d.Body), d.Exchange, d.RoutingKey, d.Redelivered, d.MessageId, d.DeliveryMode},
				[]any{"a", "", dead, false, "m", uint8(2)})
			p.equalHeaders(d, amqp.Table{
				"mine":                 int8(3),
				"x-death":              []any{deathOf(q, "rejected", "", 1, q)},
				"x-first-death-reason": "rejected", "x-first-death-queue": q, "x-first-death-exchange": "",
				"x-last-death-reason": "rejected", "x-last-death-queue": q, "x-last-death-exchange": "",
			})
			at, _ := d.Headers["x-death"].([]any)[0].(amqp.Table)["time"].(time.Time)
			if since := time.Since(at); since < -2*time.Second || since > time.Minute {
				p.Errorf("time of death is %v ago", since)
			}
		}},
		{name: "expired, by its own TTL", check: func(p *probe) {
			dead := p.queue(nil)
			q := p.queue(deadTo("", dead))
			p.publishConfirmed("", q, amqp.Publishing{Expiration: "50"})
			d := p.get(dead)
			p.equal("expiration", d.Expiration, "")
			death := deathOf(q, "expired", "", 1, q)
			death["original-expiration"] = "50"
			p.equal("x-death", deathsIn(d), []any{death})
		}},
		{name: "expired, by the queue's TTL", check: func(p *probe) {
			dead, x := p.queue(nil), p.exchange("topic", nil)
			args := deadTo("", dead)
			args["x-message-ttl"] = int32(50)
			q := p.queue(args)
			p.bind(q, "#", x, nil)
			p.publishConfirmed(x, "a.b", textMessage(""))
			d := p.get(dead)
			p.equal("x-death", deathsIn(d), []any{deathOf(q, "expired", x, 1, "a.b")})
			p.equal("first exchange", d.Headers["x-first-death-exchange"], any(x))
		}},
		{name: "overflow", check: func(p *probe) {
			dead := p.queue(nil)
			args := deadTo("", dead)
			args["x-max-length"] = int32(1)
			q := p.queue(args)
			p.publishTexts(q, "a", "b", "c")
			p.equal("dead", p.bodies(dead, 2), []string{"a", "b"})
			p.publishTexts(q, "d")
			p.equal("reason", deathsIn(p.get(dead)), []any{deathOf(q, "maxlen", "", 1, q)})
		}},
		{name: "overflow of reject-publish-dlx", check: func(p *probe) {
			dead := p.queue(nil)
			args := deadTo("", dead)
			args["x-max-length"], args["x-overflow"] = int32(1), "reject-publish-dlx"
			q := p.queue(args)
			p.equal("first", p.publishConfirmed("", q, textMessage("a")), true)
			p.equal("second", p.publishConfirmed("", q, textMessage("b")), false)
			d := p.get(dead)
			p.equal("body", string(d.Body), "b")
			p.equal("reason", deathsIn(d), []any{deathOf(q, "maxlen", "", 1, q)})
		}},
		{name: "delivery limit", check: func(p *probe) {
			dead := p.queue(nil)
			args := deadTo("", dead)
			args["x-queue-type"], args["x-delivery-limit"] = "quorum", int32(1)
			q := p.queue(args)
			p.publishTexts(q, "a")
			p.must(p.getWith(p.ch, q, false).Nack(false, true))
			p.must(p.getWith(p.ch, q, false).Nack(false, true))
			p.equal("reason", deathsIn(p.get(dead)), []any{deathOf(q, "delivery_limit", "", 1, q)})
		}},
		{name: "keeps its routing key without one of the queue's", check: func(p *probe) {
			x, source, dead := p.exchange("fanout", nil), p.exchange("topic", nil), p.queue(nil)
			p.bind(dead, "", x, nil)
			q := p.queue(amqp.Table{"x-dead-letter-exchange": x})
			p.bind(q, "#", source, nil)
			p.publishConfirmed(source, "a.b", textMessage("a"))
			p.must(p.getWith(p.ch, q, false).Reject(false))
			d := p.get(dead)
			p.equal("exchange and key", []string{d.Exchange, d.RoutingKey}, []string{x, "a.b"})
		}},
		{name: "history, newest first", check: deathHistory},
		{name: "a round trip counts", check: func(p *probe) {
			first, second := p.name(), p.name()
			p.queueNamed(first, deadTo("", second))
			p.queueNamed(second, deadTo("", first))
			p.publishTexts(first, "a")
			for range 2 {
				p.must(p.getWith(p.ch, first, false).Nack(false, false))
				p.must(p.getWith(p.ch, second, false).Nack(false, false))
			}
			p.equal("x-death", deathsIn(p.get(first)), []any{
				deathOf(second, "rejected", "", 2, second), deathOf(first, "rejected", "", 2, first),
			})
		}},
		{name: "an automatic cycle ends", check: func(p *probe) {
			first, second := p.name(), p.name()
			args := deadTo("", second)
			args["x-message-ttl"] = int32(30)
			p.queueNamed(first, args)
			args = deadTo("", first)
			args["x-message-ttl"] = int32(30)
			p.queueNamed(second, args)
			p.publishTexts(first, "a")
			time.Sleep(2 * quietTime)
			p.awaitReady(first, 0)
			p.awaitReady(second, 0)
		}},
		{name: "a cycle with a rejection goes on", check: func(p *probe) {
			work, wait := p.name(), p.name()
			p.queueNamed(work, deadTo("", wait))
			args := deadTo("", work)
			args["x-message-ttl"] = int32(30)
			p.queueNamed(wait, args)
			p.publishTexts(work, "a")
			for range 3 {
				p.must(p.getWith(p.ch, work, false).Nack(false, false))
			}
			d := p.get(work)
			p.equal("x-death", deathsIn(d), []any{
				deathOf(wait, "expired", "", 3, wait), deathOf(work, "rejected", "", 3, work),
			})
			p.equal("x-first-death-queue", d.Headers["x-first-death-queue"], any(work))
			if last, there := d.Headers["x-last-death-queue"]; there { // since RabbitMQ 4
				p.equal("x-last-death-queue", last, any(wait))
			}
		}},
		{name: "to itself, expired", check: func(p *probe) {
			name := p.name()
			args := deadTo("", name)
			args["x-message-ttl"] = int32(30)
			p.queueNamed(name, args)
			p.publishTexts(name, "a")
			p.awaitReady(name, 0)
			p.expectEmpty(name)
		}},
		{name: "a made-up history is not believed", since: "4", check: func(p *probe) {
			dead := p.queue(nil)
			q := p.queue(deadTo("", dead))
			p.publishConfirmed("", q, amqp.Publishing{Headers: amqp.Table{
				"x-death":              []any{amqp.Table{"queue": q, "reason": "rejected", "count": int64(7)}},
				"x-first-death-reason": "boredom",
			}})
			p.must(p.getWith(p.ch, q, false).Nack(false, false))
			d := p.get(dead)
			p.equal("x-death", deathsIn(d), []any{deathOf(q, "rejected", "", 1, q)})
			p.equal("x-first-death-reason", d.Headers["x-first-death-reason"], any("rejected"))
		}},
		{name: "no such exchange", check: func(p *probe) {
			q := p.queue(deadTo(p.name(), "k"))
			p.publishTexts(q, "a")
			p.must(p.getWith(p.ch, q, false).Nack(false, false))
			p.expectEmpty(q)
		}},
		{name: "the exchange may come later", check: func(p *probe) {
			x, dead := p.name(), p.queue(nil)
			q := p.queue(deadTo(x, "k"))
			p.must(p.ch.ExchangeDeclare(x, "fanout", true, false, false, false, nil))
			p.deleteExchange(x)
			p.bind(dead, "", x, nil)
			p.publishTexts(q, "a")
			p.must(p.getWith(p.ch, q, false).Nack(false, false))
			p.get(dead)
		}},
		{name: "purge and delete kill nothing", check: func(p *probe) {
			dead := p.queue(nil)
			q := p.queue(deadTo("", dead))
			p.publishTexts(q, "a")
			_, err := p.ch.QueuePurge(q, false)
			p.must(err)
			p.publishTexts(q, "b")
			_, err = p.ch.QueueDelete(q, false, false, false)
			p.must(err)
			p.expectEmpty(dead)
		}},
		{name: "CC survives, BCC does not", since: "4", check: func(p *probe) {
			dead, x := p.queue(nil), p.exchange("fanout", nil)
			p.bind(dead, "", x, nil)
			q := p.queue(amqp.Table{"x-dead-letter-exchange": x})
			p.publishConfirmed("", q, amqp.Publishing{Headers: amqp.Table{"CC": []any{"cc"}, "BCC": []any{"bcc"}}})
			p.must(p.getWith(p.ch, q, false).Nack(false, false))
			d := p.get(dead)
			p.equal("CC, BCC", []any{d.Headers["CC"], d.Headers["BCC"]}, []any{[]any{"cc"}, nil})
			p.equal("x-death", deathsIn(d), []any{deathOf(q, "rejected", "", 1, q, "cc")})
		}},
		{name: "quorum, at least once", check: func(p *probe) {
			dead := p.queue(nil)
			args := deadTo("", dead)
			args["x-queue-type"], args["x-dead-letter-strategy"], args["x-overflow"] = "quorum", "at-least-once", "reject-publish"
			args["x-message-ttl"] = int32(50)
			q := p.queue(args)
			p.publishTexts(q, "a")
			d := p.get(dead)
			p.equal("x-death", deathsIn(d), []any{deathOf(q, "expired", "", 1, q)})
		}},
		{name: "through the default exchange after a delay", check: func(p *probe) {
			due := p.queue(nil)
			args := deadTo("", due)
			args["x-message-ttl"] = int32(300)
			q := p.queue(args)
			start := time.Now()
			p.publishTexts(q, "a")
			p.get(due)
			if took := time.Since(start); took < 300*time.Millisecond {
				p.Errorf("came after %v", took)
			}
		}},
	}
}

func deadTo(exchange, key string) amqp.Table {
	return amqp.Table{"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key}
}

func deathOf(queue, reason, exchange string, count int64, keys ...string) amqp.Table {
	all := make([]any, len(keys))
	for i, key := range keys {
		all[i] = key
	}
	return amqp.Table{"queue": queue, "reason": reason, "exchange": exchange, "count": count, "routing-keys": all}
}

// deathsIn returns the entries of x-death without their times.
func deathsIn(d amqp.Delivery) []any {
	deaths, _ := d.Headers["x-death"].([]any)
	all := make([]any, len(deaths))
	for i, death := range deaths {
		copied := amqp.Table{}
		table, _ := death.(amqp.Table)
		for name, value := range table {
			if name != "time" {
				copied[name] = value
			}
		}
		all[i] = copied
	}
	return all
}

func (p *probe) equalHeaders(d amqp.Delivery, want amqp.Table) {
	p.Helper()
	got := amqp.Table{}
	for name, value := range d.Headers {
		// RabbitMQ 3 has no x-last-death-*.
		if strings.HasPrefix(name, "x-last-death-") && want[name] == nil {
			continue
		}
		got[name] = value
	}
	got["x-death"] = deathsIn(d)
	if _, there := got["x-last-death-reason"]; !there {
		for name := range want {
			if strings.HasPrefix(name, "x-last-death-") {
				delete(want, name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.Fatalf("headers (-want +got):\n%s", diff)
	}
}

func deathHistory(p *probe) {
	last := p.queue(nil)
	middle := p.queue(deadTo("", last))
	x := p.exchange("topic", nil)
	args := deadTo(x, "second.key")
	args["x-message-ttl"] = int32(30)
	first := p.queue(args)
	p.bind(middle, "second.*", x, nil)
	p.publishTexts(first, "a")
	p.must(p.getWith(p.ch, middle, false).Nack(false, false))
	d := p.get(last)
	p.equal("x-death", deathsIn(d), []any{
		deathOf(middle, "rejected", x, 1, "second.key"), deathOf(first, "expired", "", 1, first),
	})
	p.equal("first death", fmt.Sprint(d.Headers["x-first-death-queue"], d.Headers["x-first-death-reason"], d.Headers["x-first-death-exchange"]),
		first+"expired")
}
