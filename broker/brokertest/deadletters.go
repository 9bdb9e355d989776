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
		{name: "rejected", check: deadLetterRejected},
		{name: "expired, by its own TTL", check: deadLetterByMessageTTL},
		{name: "expired, by the queue's TTL", check: deadLetterByQueueTTL},
		{name: "overflow", check: deadLetterByOverflow},
		{name: "overflow of reject-publish-dlx", check: deadLetterByRejectPublishDLX},
		{name: "delivery limit", check: deadLetterByDeliveryLimit},
		{name: "a rejection counts as one delivery of the next quorum queue", since: "4.0", until: "4.3", check: deadLetterCountsRejection},
		{name: "failed deliveries are added up", since: "4.3", check: deadLetterKeepsDeliveryCount},
		{name: "keeps its routing key without one of the queue's", check: deadLetterKeepsRoutingKey},
		{name: "history, newest first", check: deathHistory},
		{name: "a round trip counts", check: deathCountOfRoundTrip},
		{name: "an automatic cycle ends", check: automaticCycleEnds},
		{name: "a cycle with a rejection goes on", check: cycleWithRejection},
		{name: "to itself, expired", check: deadLetterToItself},
		{name: "a made-up history is believed", until: "4.0", check: believedDeathHistory},
		{name: "a made-up history is not believed", since: "4.0", check: forgedDeathHistory},
		{name: "no such exchange", check: deadLetterNoSuchExchange},
		{name: "the exchange may come later", check: deadLetterExchangeDeclaredLater},
		{name: "purge and delete kill nothing", check: noDeadLettersOfPurge},
		{name: "CC survives, BCC does not", since: "4.0", check: deadLetterKeepsCC},
		{name: "quorum, at least once", check: deadLetterAtLeastOnce},
		{name: "through the default exchange after a delay", check: deadLetterThroughDefaultExchange},
	}
}

func deadLetterRejected(p *probe) {
	dead := p.queue(nil)
	q := p.queue(deadLetterArguments("", dead))
	p.publishConfirmed("", q, amqp.Publishing{
		Body: []byte("a"), MessageId: "m", Headers: amqp.Table{"mine": int8(3)}, DeliveryMode: 2,
	})
	p.must(p.getWith(p.ch, q, false).Nack(false, false))
	d := p.get(dead)
	p.wantEqual("delivery", []any{string(d.Body), d.Exchange, d.RoutingKey, d.Redelivered, d.MessageId, d.DeliveryMode},
		[]any{"a", "", dead, false, "m", uint8(2)})
	p.equalHeaders(d, amqp.Table{
		"mine":                 int8(3),
		"x-death":              []any{xDeath(q, "rejected", "", 1, q)},
		"x-first-death-reason": "rejected", "x-first-death-queue": q, "x-first-death-exchange": "",
		"x-last-death-reason": "rejected", "x-last-death-queue": q, "x-last-death-exchange": "",
	})
	at, _ := d.Headers["x-death"].([]any)[0].(amqp.Table)["time"].(time.Time)
	if since := time.Since(at); since < -2*time.Second || since > time.Minute {
		p.Errorf("time of death is %v ago", since)
	}
}

func deadLetterByMessageTTL(p *probe) {
	dead := p.queue(nil)
	q := p.queue(deadLetterArguments("", dead))
	p.publishConfirmed("", q, amqp.Publishing{Expiration: "50"})
	d := p.get(dead)
	p.wantEqual("expiration", d.Expiration, "")
	death := xDeath(q, "expired", "", 1, q)
	death["original-expiration"] = "50"
	p.wantEqual("x-death", xDeathsOf(d), []any{death})
}

func deadLetterByQueueTTL(p *probe) {
	dead, x := p.queue(nil), p.exchange("topic", nil)
	args := deadLetterArguments("", dead)
	args["x-message-ttl"] = int32(50)
	q := p.queue(args)
	p.bind(q, "#", x, nil)
	p.publishConfirmed(x, "a.b", textMessage(""))
	d := p.get(dead)
	p.wantEqual("x-death", xDeathsOf(d), []any{xDeath(q, "expired", x, 1, "a.b")})
	p.wantEqual("first exchange", d.Headers["x-first-death-exchange"], any(x))
}

func deadLetterByOverflow(p *probe) {
	dead := p.queue(nil)
	args := deadLetterArguments("", dead)
	args["x-max-length"] = int32(1)
	q := p.queue(args)
	p.publishTexts(q, "a", "b", "c")
	p.wantEqual("dead", p.bodies(dead, 2), []string{"a", "b"})
	p.publishTexts(q, "d")
	p.wantEqual("reason", xDeathsOf(p.get(dead)), []any{xDeath(q, "maxlen", "", 1, q)})
}

func deadLetterByRejectPublishDLX(p *probe) {
	dead := p.queue(nil)
	args := deadLetterArguments("", dead)
	args["x-max-length"], args["x-overflow"] = int32(1), "reject-publish-dlx"
	q := p.queue(args)
	p.wantEqual("first", p.publishConfirmed("", q, textMessage("a")), true)
	p.wantEqual("second", p.publishConfirmed("", q, textMessage("b")), false)
	d := p.get(dead)
	p.wantEqual("body", string(d.Body), "b")
	p.wantEqual("reason", xDeathsOf(d), []any{xDeath(q, "maxlen", "", 1, q)})
}

func deadLetterByDeliveryLimit(p *probe) {
	dead := p.queue(nil)
	args := deadLetterArguments("", dead)
	args["x-queue-type"], args["x-delivery-limit"] = "quorum", int32(1)
	q := p.queue(args)
	p.publishTexts(q, "a")
	p.must(p.getWith(p.ch, q, false).Reject(true))
	p.must(p.getWith(p.ch, q, false).Reject(true))
	p.wantEqual("reason", xDeathsOf(p.get(dead)), []any{xDeath(q, "delivery_limit", "", 1, q)})
}

// Before RabbitMQ 4.3 a queue counts the deliveries of another queue as one, if any.
func deadLetterCountsRejection(p *probe) {
	for _, c := range []struct {
		from, to    string
		redelivered bool
		count       any
	}{
		{"classic", "quorum", false, nil},
		{"quorum", "classic", false, nil},
		{"quorum", "quorum", true, int64(1)},
	} {
		dead := p.queue(amqp.Table{"x-queue-type": c.to})
		args := deadLetterArguments("", dead)
		args["x-queue-type"] = c.from
		q := p.queue(args)
		p.publishTexts(q, "a")
		p.must(p.getWith(p.ch, q, false).Reject(true))
		p.must(p.getWith(p.ch, q, false).Reject(false))
		d := p.get(dead)
		p.wantEqual("redelivered and count", []any{d.Redelivered, d.Headers["x-delivery-count"]}, []any{c.redelivered, c.count})
	}
}

func deadLetterKeepsDeliveryCount(p *probe) {
	for _, kind := range []string{"classic", "quorum"} {
		for _, c := range []struct {
			rejections, nacks int
			reject            bool // in the end; else a nack
			count             any
		}{
			{rejections: 0, reject: true, count: int64(1)},
			{rejections: 2, reject: true, count: int64(3)},
			{rejections: 2, reject: false, count: int64(2)},
			{nacks: 2, reject: false, count: nil},
			{nacks: 2, reject: true, count: int64(1)},
		} {
			dead := p.queue(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(3)})
			args := deadLetterArguments("", dead)
			args["x-queue-type"] = kind
			q := p.queue(args)
			p.publishTexts(q, "a")
			for range c.rejections {
				p.must(p.getWith(p.ch, q, false).Reject(true))
			}
			for range c.nacks {
				p.must(p.getWith(p.ch, q, false).Nack(false, true))
			}
			if d := p.getWith(p.ch, q, false); c.reject {
				p.must(d.Reject(false))
			} else {
				p.must(d.Nack(false, false))
			}
			d := p.getWith(p.ch, dead, false)
			p.wantEqual(fmt.Sprint(kind, c), []any{d.Redelivered, d.Headers["x-delivery-count"], d.Headers["x-acquired-count"]},
				[]any{c.count != nil, c.count, c.count})
			if c.count == int64(3) { // the limit of this queue
				p.must(d.Reject(true))
				p.expectEmpty(dead)
			}
		}
	}
}

func deadLetterKeepsRoutingKey(p *probe) {
	x, source, dead := p.exchange("fanout", nil), p.exchange("topic", nil), p.queue(nil)
	p.bind(dead, "", x, nil)
	q := p.queue(amqp.Table{"x-dead-letter-exchange": x})
	p.bind(q, "#", source, nil)
	p.publishConfirmed(source, "a.b", textMessage("a"))
	p.must(p.getWith(p.ch, q, false).Reject(false))
	d := p.get(dead)
	p.wantEqual("exchange and key", []string{d.Exchange, d.RoutingKey}, []string{x, "a.b"})
}

func deathCountOfRoundTrip(p *probe) {
	first, second := p.name(), p.name()
	p.queueNamed(first, deadLetterArguments("", second))
	p.queueNamed(second, deadLetterArguments("", first))
	p.publishTexts(first, "a")
	for range 2 {
		p.must(p.getWith(p.ch, first, false).Nack(false, false))
		p.must(p.getWith(p.ch, second, false).Nack(false, false))
	}
	p.wantEqual("x-death", xDeathsOf(p.get(first)), []any{
		xDeath(second, "rejected", "", 2, second), xDeath(first, "rejected", "", 2, first),
	})
}

func automaticCycleEnds(p *probe) {
	first, second := p.name(), p.name()
	args := deadLetterArguments("", second)
	args["x-message-ttl"] = int32(30)
	p.queueNamed(first, args)
	args = deadLetterArguments("", first)
	args["x-message-ttl"] = int32(30)
	p.queueNamed(second, args)
	p.publishTexts(first, "a")
	time.Sleep(2 * quietTime)
	p.awaitReady(first, 0)
	p.awaitReady(second, 0)
}

func cycleWithRejection(p *probe) {
	work, wait := p.name(), p.name()
	p.queueNamed(work, deadLetterArguments("", wait))
	args := deadLetterArguments("", work)
	args["x-message-ttl"] = int32(30)
	p.queueNamed(wait, args)
	p.publishTexts(work, "a")
	for range 3 {
		p.must(p.getWith(p.ch, work, false).Nack(false, false))
	}
	d := p.get(work)
	p.wantEqual("x-death", xDeathsOf(d), []any{
		xDeath(wait, "expired", "", 3, wait), xDeath(work, "rejected", "", 3, work),
	})
	p.wantEqual("x-first-death-queue", d.Headers["x-first-death-queue"], any(work))
	if last, there := d.Headers["x-last-death-queue"]; there { // since RabbitMQ 4
		p.wantEqual("x-last-death-queue", last, any(wait))
	}
}

func deadLetterToItself(p *probe) {
	name := p.name()
	args := deadLetterArguments("", name)
	args["x-message-ttl"] = int32(30)
	p.queueNamed(name, args)
	p.publishTexts(name, "a")
	p.awaitReady(name, 0)
	p.expectEmpty(name)
}

// believedDeathHistory: the entries stay as they are, but for the count.
func believedDeathHistory(p *probe) {
	dead := p.queue(nil)
	q := p.queue(deadLetterArguments("", dead))
	other := amqp.Table{"queue": "other", "reason": "expired", "count": int64(2), "exchange": "x", "routing-keys": []any{"k"}}
	p.publishConfirmed("", q, amqp.Publishing{Headers: amqp.Table{
		"x-death":              []any{other, amqp.Table{"queue": q, "reason": "rejected", "count": int64(7), "exchange": "", "routing-keys": []any{q}}},
		"x-first-death-reason": "boredom",
	}})
	p.must(p.getWith(p.ch, q, false).Nack(false, false))
	d := p.get(dead)
	p.wantEqual("x-death", xDeathsOf(d), []any{xDeath(q, "rejected", "", 8, q), xDeath("other", "expired", "x", 2, "k")})
	p.wantEqual("x-first-death-reason", d.Headers["x-first-death-reason"], any("boredom"))
}

func forgedDeathHistory(p *probe) {
	dead := p.queue(nil)
	q := p.queue(deadLetterArguments("", dead))
	p.publishConfirmed("", q, amqp.Publishing{Headers: amqp.Table{
		"x-death":              []any{amqp.Table{"queue": q, "reason": "rejected", "count": int64(7)}},
		"x-first-death-reason": "boredom",
	}})
	p.must(p.getWith(p.ch, q, false).Nack(false, false))
	d := p.get(dead)
	p.wantEqual("x-death", xDeathsOf(d), []any{xDeath(q, "rejected", "", 1, q)})
	p.wantEqual("x-first-death-reason", d.Headers["x-first-death-reason"], any("rejected"))
}

func deadLetterNoSuchExchange(p *probe) {
	q := p.queue(deadLetterArguments(p.name(), "k"))
	p.publishTexts(q, "a")
	p.must(p.getWith(p.ch, q, false).Nack(false, false))
	p.expectEmpty(q)
}

func deadLetterExchangeDeclaredLater(p *probe) {
	x, dead := p.name(), p.queue(nil)
	q := p.queue(deadLetterArguments(x, "k"))
	p.must(p.ch.ExchangeDeclare(x, "fanout", true, false, false, false, nil))
	p.deleteExchange(x)
	p.bind(dead, "", x, nil)
	p.publishTexts(q, "a")
	p.must(p.getWith(p.ch, q, false).Nack(false, false))
	p.get(dead)
}

func noDeadLettersOfPurge(p *probe) {
	dead := p.queue(nil)
	q := p.queue(deadLetterArguments("", dead))
	p.publishTexts(q, "a")
	_, err := p.ch.QueuePurge(q, false)
	p.must(err)
	p.publishTexts(q, "b")
	_, err = p.ch.QueueDelete(q, false, false, false)
	p.must(err)
	p.expectEmpty(dead)
}

func deadLetterKeepsCC(p *probe) {
	dead, x := p.queue(nil), p.exchange("fanout", nil)
	p.bind(dead, "", x, nil)
	q := p.queue(amqp.Table{"x-dead-letter-exchange": x})
	p.publishConfirmed("", q, amqp.Publishing{Headers: amqp.Table{"CC": []any{"cc"}, "BCC": []any{"bcc"}}})
	p.must(p.getWith(p.ch, q, false).Nack(false, false))
	d := p.get(dead)
	p.wantEqual("CC, BCC", []any{d.Headers["CC"], d.Headers["BCC"]}, []any{[]any{"cc"}, nil})
	p.wantEqual("x-death", xDeathsOf(d), []any{xDeath(q, "rejected", "", 1, q, "cc")})
}

func deadLetterAtLeastOnce(p *probe) {
	dead := p.queue(nil)
	args := deadLetterArguments("", dead)
	args["x-queue-type"], args["x-dead-letter-strategy"], args["x-overflow"] = "quorum", "at-least-once", "reject-publish"
	args["x-message-ttl"] = int32(50)
	q := p.queue(args)
	p.publishTexts(q, "a")
	d := p.get(dead)
	p.wantEqual("x-death", xDeathsOf(d), []any{xDeath(q, "expired", "", 1, q)})
}

func deadLetterThroughDefaultExchange(p *probe) {
	due := p.queue(nil)
	args := deadLetterArguments("", due)
	args["x-message-ttl"] = int32(300)
	q := p.queue(args)
	start := time.Now()
	p.publishTexts(q, "a")
	p.get(due)
	if took := time.Since(start); took < 300*time.Millisecond {
		p.Errorf("came after %v", took)
	}
}

func deadLetterArguments(exchange, key string) amqp.Table {
	return amqp.Table{"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key}
}

func xDeath(queue, reason, exchange string, count int64, keys ...string) amqp.Table {
	all := make([]any, len(keys))
	for i, key := range keys {
		all[i] = key
	}
	return amqp.Table{"queue": queue, "reason": reason, "exchange": exchange, "count": count, "routing-keys": all}
}

// xDeathsOf returns the entries of x-death without their times.
func xDeathsOf(d amqp.Delivery) []any {
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
	got["x-death"] = xDeathsOf(d)
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
	middle := p.queue(deadLetterArguments("", last))
	x := p.exchange("topic", nil)
	args := deadLetterArguments(x, "second.key")
	args["x-message-ttl"] = int32(30)
	first := p.queue(args)
	p.bind(middle, "second.*", x, nil)
	p.publishTexts(first, "a")
	p.must(p.getWith(p.ch, middle, false).Nack(false, false))
	d := p.get(last)
	p.wantEqual("x-death", xDeathsOf(d), []any{
		xDeath(middle, "rejected", x, 1, "second.key"), xDeath(first, "expired", "", 1, first),
	})
	p.wantEqual("first death", fmt.Sprint(d.Headers["x-first-death-queue"], d.Headers["x-first-death-reason"], d.Headers["x-first-death-exchange"]),
		first+"expired")
}
