package broker

import "time"

// expiry returns the time at which a message expires in this queue, by the lesser of
// its own TTL and the TTL of the queue (https://www.rabbitmq.com/docs/ttl). Zero for
// never.
func (q *queue) expiry(m *message) time.Time {
	ttl := q.settings.messageTTL
	if m.ttl >= 0 && (ttl < 0 || m.ttl < ttl) {
		ttl = m.ttl
	}
	if ttl < 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ttl) * time.Millisecond)
}

func (e *entry) expired(now time.Time) bool {
	return !e.expires.IsZero() && !now.Before(e.expires)
}

// dropExpired dead-letters expired messages, as RabbitMQ only at the heads of the queue:
// an expired message after one that has not expired stays.
func (q *queue) dropExpired(now time.Time) {
	for l := range q.ready.heads {
		for e := l.first(); e != nil && e.expired(now); e = l.first() {
			q.discard(q.ready.popFrom(l), "expired")
		}
	}
}

// updateDeadline sets the deadline of the queue, and wakes the timer where it is the
// earliest.
func (q *queue) updateDeadline() {
	if q.deleted {
		return
	}
	if at := q.nextDeadline(); q.vhost.deadlines.set(q, at) {
		signal(q.vhost.timerWake)
	}
}

func (q *queue) nextDeadline() (at time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for l := range q.ready.heads {
		sooner(l.first().expires)
	}
	if q.settings.expires > 0 && !q.inUse() {
		sooner(q.lastUse.Add(q.settings.expires))
	}
	if len(q.undelivered) > 0 {
		sooner(q.retryAt)
	}
	return at
}

// handleDue expires the queue or its messages, and publishes undelivered dead letters
// again, where their time has come.
func (q *queue) handleDue(now time.Time) {
	if q.settings.expires > 0 && !q.inUse() && !now.Before(q.lastUse.Add(q.settings.expires)) {
		q.delete()
		return
	}
	if len(q.undelivered) > 0 && !now.Before(q.retryAt) {
		q.retryUndelivered()
	}
	q.dropExpired(now)
	q.updateDeadline()
}
