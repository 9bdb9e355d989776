package broker

import (
	"slices"
	"time"
)

// death is a message that a queue has done with, on its way to the dead-letter
// exchange.
type death struct {
	queue   *queue
	message *message
	reason  string
}

const stuckRetry = time.Second // between attempts of an at-least-once queue

// die sends a message to the dead-letter exchange, if there is to be one; it goes
// when the vhost's lock is let go.
func (q *queue) die(m *message, reason string) {
	if q.settings.hasDLX {
		q.vhost.dead = append(q.vhost.dead, death{q, m, reason})
	}
}

// bury publishes the dead. Publishing can kill again, so it goes on until all are
// at rest; the cycle rule ends it.
func (v *vhost) bury() {
	for len(v.dead) > 0 {
		d := v.dead[0]
		v.dead = v.dead[1:]
		if !v.publishDeath(d) && d.queue.settings.atLeastOnce && !d.queue.deleted {
			d.queue.keepDeath(d)
		}
	}
	v.dead = nil
}

// publishDeath says whether some queue took the message and none refused it.
func (v *vhost) publishDeath(d death) (taken bool) {
	x, there := v.exchanges[d.queue.settings.dlx]
	if !there {
		return false
	}
	m := d.letter()
	targets := v.route(x, m)
	taken = len(targets) > 0
	for _, q := range withoutCycles(targets, m, d.reason) {
		taken = q.push(m) && taken
	}
	return taken
}

// keepDeath holds what an at-least-once queue could not deliver.
func (q *queue) keepDeath(d death) {
	if len(q.stuck) == 0 {
		q.retryStuck = time.Now().Add(stuckRetry)
	}
	q.stuck = append(q.stuck, d)
	q.hold(d.message)
	q.schedule()
}

func (q *queue) retryDeaths() { q.vhost.dead = append(q.vhost.dead, q.forgetStuck()...) }

func (q *queue) forgetStuck() []death {
	for _, d := range q.stuck {
		q.release(&entry{message: d.message})
	}
	stuck := q.stuck
	q.stuck = nil
	return stuck
}

// letter is the message with the history of its deaths, the latest first
// (https://www.rabbitmq.com/docs/dlx#effects).
func (d death) letter() *message {
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
func (d death) history() []deathRecord {
	old := d.message
	record := deathRecord{
		queue: d.queue.name, reason: d.reason, exchange: old.exchange,
		keys: old.keys[:len(old.keys)-old.bcc], first: time.Now(), ttl: old.ttl,
	}
	rest := slices.Clone(old.deaths)
	known := slices.IndexFunc(rest, func(r deathRecord) bool { return r.queue == record.queue && r.reason == record.reason })
	if known >= 0 {
		record = rest[known]
		rest = slices.Delete(rest, known, known+1)
	}
	record.count++
	return append([]deathRecord{record}, rest...)
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
