package broker

import (
	"slices"
	"time"
)

// deadLetter is a message that a queue has done with, on its way to the dead-letter
// exchange.
type deadLetter struct {
	queue   *queue
	message *message
	reason  string
}

const undeliveredRetry = time.Second // between attempts of an at-least-once queue

// deadLetter sends a message to the dead-letter exchange, if there is to be one; it goes
// when the vhost's lock is let go.
func (q *queue) deadLetter(m *message, reason string) {
	if q.settings.hasDLX {
		q.vhost.deadLetters = append(q.vhost.deadLetters, deadLetter{q, m, reason})
	}
}

// flushDeadLetters publishes the dead. Publishing can kill again, so it goes on until all are
// at rest; the cycle rule ends it.
func (v *vhost) flushDeadLetters() {
	for len(v.deadLetters) > 0 {
		d := v.deadLetters[0]
		v.deadLetters = v.deadLetters[1:]
		if !v.publishDeadLetter(d) && d.queue.settings.atLeastOnce && !d.queue.deleted {
			d.queue.keepUndelivered(d)
		}
	}
	v.deadLetters = nil
}

// publishDeadLetter says whether some queue took the message and none refused it.
func (v *vhost) publishDeadLetter(d deadLetter) (taken bool) {
	x, there := v.exchanges[d.queue.settings.dlx]
	if !there {
		return false
	}
	m := d.withDeathHeaders()
	targets := v.route(x, m)
	taken = len(targets) > 0
	for _, q := range withoutCycles(targets, m, d.reason) {
		taken = q.push(m) && taken
	}
	return taken
}

// keepUndelivered holds what an at-least-once queue could not deliver.
func (q *queue) keepUndelivered(d deadLetter) {
	if len(q.undelivered) == 0 {
		q.retryAt = time.Now().Add(undeliveredRetry)
	}
	q.undelivered = append(q.undelivered, d)
	q.countMessage(d.message)
	q.schedule()
}

func (q *queue) retryUndelivered() {
	q.vhost.deadLetters = append(q.vhost.deadLetters, q.dropUndelivered()...)
}

func (q *queue) dropUndelivered() []deadLetter {
	for _, d := range q.undelivered {
		q.uncountMessage(&entry{message: d.message})
	}
	stuck := q.undelivered
	q.undelivered = nil
	return stuck
}

// withDeathHeaders is the message with the history of its deaths, the latest first
// (https://www.rabbitmq.com/docs/dlx#effects).
func (d deadLetter) withDeathHeaders() *message {
	old := d.message
	m := &message{
		exchange: d.queue.settings.dlx,
		keys:     old.keys,
		bcc:      old.bcc,
		body:     old.body,
		ttl:      -1,
		deaths:   d.history(),
	}
	if key := d.queue.settings.dlk; key != nil {
		m.keys, m.bcc = []string{*key}, 0
	}
	p := old.properties()
	p.values[propExpiration] = nil // or it would expire at once in the next queue
	p.setHeaders(m.deathHeaders(p.headers(), old.exchange))
	m.header = p.encode()
	return m
}

// history counts a death that is known already, or adds one; it comes first.
func (d deadLetter) history() []death {
	old := d.message
	record := death{
		queue: d.queue.name, reason: d.reason, exchange: old.exchange,
		keys: old.keys[:len(old.keys)-old.bcc], first: time.Now(), ttl: old.ttl,
	}
	rest := slices.Clone(old.deaths)
	known := slices.IndexFunc(rest, func(r death) bool { return r.queue == record.queue && r.reason == record.reason })
	if known >= 0 {
		record = rest[known]
		rest = slices.Delete(rest, known, known+1)
	}
	record.count++
	return append([]death{record}, rest...)
}

// deathHeaders are a message's headers with the broker's own in place of any that
// a publisher made up. x-first-death-* stay as they were at the first death. From is
// the exchange that the message came to the queue by.
func (m *message) deathHeaders(headers table, from string) table {
	var deaths []byte
	for _, d := range m.deaths {
		deaths = tableItem(deaths, d.table())
	}
	last := m.deaths[0]
	own := []string{"x-death", "x-last-death-reason", "x-last-death-queue", "x-last-death-exchange"}
	first := len(m.deaths) == 1 && last.count == 1
	if first {
		own = append(own, "x-first-death-reason", "x-first-death-queue", "x-first-death-exchange")
	}
	t := headers.without(own...).withArray("x-death", deaths)
	if first {
		t = t.withText("x-first-death-reason", last.reason).
			withText("x-first-death-queue", last.queue).
			withText("x-first-death-exchange", last.exchange)
	}
	return t.withText("x-last-death-reason", last.reason).
		withText("x-last-death-queue", last.queue).
		withText("x-last-death-exchange", from)
}

// withoutCycles leaves out the queues that the message has died in already without
// a consumer having rejected it since: it would go round for ever.
func withoutCycles(targets []*queue, m *message, reason string) []*queue {
	if reason == "rejected" {
		return targets
	}
	return slices.DeleteFunc(targets, func(q *queue) bool { return m.wouldCycle(q.name) })
}

func (m *message) wouldCycle(queue string) bool {
	for _, d := range m.deaths {
		if d.reason == "rejected" {
			return false
		}
		if d.queue == queue {
			return true
		}
	}
	return false
}
