package broker

import (
	"slices"
	"time"
)

// deadLetter is a message that a queue dead-letters, with the reason.
type deadLetter struct {
	queue    *queue
	message  *message
	reason   string
	failures int // failed deliveries of the message; see carriedFailures
}

const undeliveredRetry = time.Second // interval at which an at-least-once queue publishes again

// deadLetter keeps a message for flushDeadLetters, if the queue has a dead-letter exchange.
func (q *queue) deadLetter(m *message, reason string, failures int) {
	if q.settings.hasDLX {
		q.vhost.deadLetters = append(q.vhost.deadLetters, deadLetter{q, m, reason, failures})
	}
}

// flushDeadLetters publishes dead letters until none is left. Publishing may add others, which
// withoutCycles bounds.
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

// publishDeadLetter reports whether at least one queue accepted the message and none
// rejected it.
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

// keepUndelivered stores a dead letter of an at-least-once queue that was not
// delivered.
func (q *queue) keepUndelivered(d deadLetter) {
	if len(q.undelivered) == 0 {
		q.retryAt = time.Now().Add(undeliveredRetry)
	}
	q.undelivered = append(q.undelivered, d)
	q.countMessage(d.message)
	q.updateDeadline()
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

// withDeathHeaders returns the message to publish, with its x-death headers, the newest
// entry first (https://www.rabbitmq.com/docs/dlx#effects).
func (d deadLetter) withDeathHeaders() *message {
	old := d.message
	m := &message{
		exchange: d.queue.settings.dlx,
		keys:     old.keys,
		bcc:      old.bcc,
		body:     old.body,
		ttl:      -1,
		deaths:   d.history(),
		failures: d.carriedFailures(),
	}
	if key := d.queue.settings.dlk; key != nil {
		m.keys, m.bcc = []string{*key}, 0
	}
	p := old.properties()
	p.values[propExpiration] = nil // else it would expire at once in the next queue
	headers := m.deathHeaders(p.headers(), old.exchange)
	if d.queue.vhost.rabbitmq.isBefore40() {
		headers = headers.without("x-last-death-reason", "x-last-death-queue", "x-last-death-exchange")
	}
	p.setHeaders(headers)
	m.header = p.encode()
	return m
}

// carriedFailures returns the number of failed deliveries that the next queues add
// to their own: since RabbitMQ 4.3 all of them, and in 4.0 the one of a rejection between
// quorum queues.
func (d deadLetter) carriedFailures() int {
	switch {
	case !d.queue.vhost.rabbitmq.isBefore43():
		return d.failures
	case d.queue.settings.quorum && d.reason == "rejected":
		return 1
	}
	return 0
}

// history returns the entries of x-death with this one first: a new entry, or the known
// one of this queue and reason with its count increased.
func (d deadLetter) history() []death {
	old := d.message
	record := death{
		queue: d.queue.name, reason: d.reason, exchange: old.exchange,
		keys: old.keys[:len(old.keys)-old.bcc], first: time.Now(), ttl: old.ttl,
	}
	rest := slices.Clone(old.deaths)
	if len(rest) == 0 && d.queue.vhost.rabbitmq.isBefore40() { // it believes a publisher
		rest = old.headers().deaths()
	}
	known := slices.IndexFunc(rest, func(r death) bool { return r.queue == record.queue && r.reason == record.reason })
	if known >= 0 {
		record = rest[known]
		rest = slices.Delete(rest, known, known+1)
	}
	record.count++
	return append([]death{record}, rest...)
}

// deathHeaders returns headers with the x-death headers of the broker in place of those
// of a publisher. x-first-death-* stay unchanged after the first entry. From is the
// exchange that the queue got the message from.
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

// withoutCycles removes the queues that dead-lettered the message before without a
// rejection by a consumer since, as RabbitMQ does against endless loops.
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
