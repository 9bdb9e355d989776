package broker

import "time"

// queue holds messages in order until consumers have acknowledged them (§3.1.1). The
// lock of its virtual host guards it.
type queue struct {
	vhost      *vhost
	name       string
	durable    bool
	autoDelete bool
	owner      *connection // of an exclusive queue; else nil
	args       table
	settings   settings // of the arguments and the policy
	policy     *policy  // nil for none
	inbound    map[*binding]struct{}
	replies    bool // a reply address; see replyToName
	deleted    bool

	ready        backlog
	unacked      int
	consumers    []*consumer  // by priority, then round-robin: the next one first
	active       *consumer    // of x-single-active-consumer
	holders      int          // see addHolder
	positions    uint64       // number of messages that were pushed
	acknowledged uint64       // number of acknowledged messages
	undelivered  []deadLetter // of an at-least-once queue
	lastUse      time.Time
	lastRouting  uint64    // the last routing that found the queue
	lastRound    uint64    // the last round of deliveries of the queue
	deadline     time.Time // see nextDeadline; zero for none
	heapIndex    int       // in vhost.deadlines
	retryAt      time.Time
}

// entry is a message in a queue.
type entry struct {
	message     *message
	position    uint64 // in order of arrival; see backlog.requeue
	expires     time.Time
	redelivered bool
	failures    int // deliveries that failed, for the delivery limit
	acquired    int // deliveries that ended without an acknowledgement
}

func newQueue(v *vhost, name string, s settings, args table) *queue {
	return &queue{
		vhost: v, name: name, settings: s, args: args,
		inbound: map[*binding]struct{}{},
		ready:   newBacklog(s, v.rabbitmq),
		lastUse: time.Now(),
	}
}

// push appends a message, or rejects it (x-overflow). A consumer with capacity gets it
// at once, whatever its TTL.
func (q *queue) push(m *message) (accepted bool) {
	if q.settings.rejects() && q.isFull(m) {
		if q.settings.overflow == rejectPublishDLX {
			q.deadLetter(m, "maxlen", 0)
		}
		return false
	}
	q.positions++
	e := &entry{message: m, position: q.positions, expires: q.expiry(m)}
	if q.settings.quorum || !q.vhost.rabbitmq.isBefore43() {
		e.redelivered, e.failures, e.acquired = m.failures > 0, m.failures, m.failures
	}
	q.countMessage(m)
	q.ready.push(e)
	q.deliver(time.Time{})
	q.dropOverflow()
	q.dropExpired(time.Now())
	q.updateDeadline()
	return true
}

// countMessage counts the memory of a message, once for all queues that contain it.
func (q *queue) countMessage(m *message) {
	bytes := int64(messageOverhead)
	if m.queues++; m.queues == 1 {
		bytes += m.size()
	}
	q.vhost.memory.add(bytes)
}

// uncountMessage undoes countMessage for an entry that left the queue.
func (q *queue) uncountMessage(e *entry) {
	bytes := int64(messageOverhead)
	if e.message.queues--; e.message.queues == 0 {
		bytes += e.message.size()
	}
	q.vhost.memory.add(-bytes)
}

// requeue puts an unacknowledged message back. With failed, it counts towards the
// delivery limit.
func (q *queue) requeue(e *entry, failed bool) {
	q.unacked--
	if q.deleted {
		q.uncountMessage(e)
		return
	}
	e.redelivered = true
	e.acquired++
	if failed {
		e.failures++
	}
	if limit := q.settings.deliveryLimit; limit >= 0 && int64(e.failures) > limit {
		q.discard(e, "delivery_limit")
		return
	}
	q.ready.requeue(e)
}

// giveBack is requeue for a message that a consumer gives back. A quorum queue of RabbitMQ 3.10 without a
// delivery limit puts it at its end.
func (q *queue) giveBack(e *entry, failed bool) {
	if q.deleted || !q.settings.quorum || q.settings.deliveryLimit >= 0 || !q.vhost.rabbitmq.isBefore40() {
		q.requeue(e, failed)
		return
	}
	q.unacked--
	q.positions++
	e.redelivered, e.position = true, q.positions
	e.acquired++
	if failed {
		e.failures++
	}
	q.ready.push(e)
}

// acknowledge removes a delivered message.
func (q *queue) acknowledge(e *entry) {
	q.unacked--
	q.acknowledged++
	q.uncountMessage(e)
}

// reject removes and dead-letters a delivered message. With failed, the delivery counts.
func (q *queue) reject(e *entry, failed bool) {
	if q.deleted {
		q.acknowledge(e)
		return
	}
	q.unacked--
	if failed {
		e.failures++
	}
	q.discard(e, "rejected")
}

// discard dead-letters an entry that was removed from the queue.
func (q *queue) discard(e *entry, reason string) {
	q.deadLetter(e.message, reason, e.failures)
	q.uncountMessage(e)
}

// deliverOnce is deliverReady, at most once in a round of deliveries.
func (q *queue) deliverOnce() {
	if q.lastRound != q.vhost.rounds {
		q.lastRound = q.vhost.rounds
		q.deliverReady()
	}
}

// deliverReady delivers ready messages. It is called after messages were requeued or
// consumers got capacity.
func (q *queue) deliverReady() {
	if q.deleted {
		return
	}
	q.deliver(time.Now())
	q.dropOverflow()
	q.updateDeadline()
}

// get removes the next message for basic.get; nil where the queue is empty.
func (q *queue) get() *entry {
	q.touch()
	q.dropExpired(time.Now())
	e := q.ready.pop()
	if e != nil {
		q.unacked++
	}
	q.updateDeadline()
	return e
}

// purge drops the ready messages, and returns their number.
func (q *queue) purge() int {
	n := q.ready.len()
	for e := q.ready.pop(); e != nil; e = q.ready.pop() {
		q.uncountMessage(e)
	}
	q.updateDeadline()
	return n
}

// delete deletes the queue with its messages, bindings and consumers, and returns the
// number of ready messages.
func (q *queue) delete() int {
	n := q.purge()
	q.deleted = true
	q.dropUndelivered()
	if q.replies {
		delete(q.vhost.replies, q.name)
	} else {
		delete(q.vhost.queues, q.name)
	}
	q.vhost.releaseTopology(q.bytes())
	q.vhost.deadlines.set(q, time.Time{})
	for b := range q.inbound {
		q.vhost.unbind(b)
	}
	for _, c := range q.consumers {
		q.vhost.releaseTopology(c.bytes())
		c.notifyCancelled()
	}
	q.consumers, q.active = nil, nil
	return n
}

// touch restarts the time of x-expires.
func (q *queue) touch() { q.lastUse = time.Now() }
