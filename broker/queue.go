package broker

import "time"

// queue keeps messages in order until consumers have taken them (§3.1.1). Its
// vhost's lock guards it.
type queue struct {
	vhost      *vhost
	name       string
	durable    bool
	autoDelete bool
	owner      *connection // of an exclusive queue, else nil
	args       table
	settings   settings
	inbound    map[*binding]struct{}
	replies    bool // it is an address of replies; see replyToName
	deleted    bool

	ready        backlog
	unacked      int
	consumers    []*consumer  // the next to be served first, those of higher priority before
	active       *consumer    // the only one that is served, with x-single-active-consumer
	positions    uint64       // how many messages came in
	acknowledged uint64       // how many were acknowledged
	undelivered  []deadLetter // that an at-least-once queue could not get rid of
	lastUse      time.Time
	lastRouting  uint64    // the routing that found the queue last
	lastRound    uint64    // the round of deliveries that it took part in last
	deadline     time.Time // when something is due; zero for never
	heapIndex    int       // in vhost.due
	retryAt      time.Time
}

// entry is a message's place in a queue.
type entry struct {
	message     *message
	position    uint64 // rises with arrival; of one given back see backlog
	expires     time.Time
	redelivered bool
	failures    int // deliveries that were not acknowledged
}

func newQueue(v *vhost, name string, s settings, args table) *queue {
	return &queue{
		vhost: v, name: name, settings: s, args: args,
		inbound: map[*binding]struct{}{},
		ready:   newBacklog(s.maxPriority),
		lastUse: time.Now(),
	}
}

// push takes a message in, or refuses it (x-overflow). A consumer that waits gets
// it at once, whatever its time to live.
func (q *queue) push(m *message) (accepted bool) {
	if q.settings.rejects() && q.isFull(m) {
		if q.settings.overflow == rejectPublishDLX {
			q.deadLetter(m, "maxlen")
		}
		return false
	}
	q.positions++
	e := &entry{message: m, position: q.positions, expires: q.expiry(m)}
	q.countMessage(m)
	q.ready.push(e)
	q.deliver(time.Time{})
	q.dropOverflow()
	q.dropExpired(time.Now())
	q.schedule()
	return true
}

// countMessage counts the memory of a message, once however many queues hold it.
func (q *queue) countMessage(m *message) {
	bytes := int64(messageOverhead)
	if m.queues++; m.queues == 1 {
		bytes += m.size()
	}
	q.vhost.memory.add(bytes)
}

// uncountMessage forgets an entry that was taken out of the queue for good.
func (q *queue) uncountMessage(e *entry) {
	bytes := int64(messageOverhead)
	if e.message.queues--; e.message.queues == 0 {
		bytes += e.message.size()
	}
	q.vhost.memory.add(-bytes)
}

// requeue takes back a delivered message that was not acknowledged. With failed,
// it counts towards the delivery limit.
func (q *queue) requeue(e *entry, failed bool) {
	q.unacked--
	if q.deleted {
		q.uncountMessage(e)
		return
	}
	e.redelivered = true
	if failed {
		e.failures++
	}
	if limit := q.settings.deliveryLimit; limit >= 0 && int64(e.failures) > limit {
		q.discard(e, "delivery_limit")
		return
	}
	q.ready.requeue(e, q.settings.quorum)
}

// removeDelivered forgets a delivered message: acknowledged, or rejected where a reason is
// given.
func (q *queue) removeDelivered(e *entry, reason string) {
	q.unacked--
	if reason != "" && !q.deleted {
		q.discard(e, reason)
		return
	}
	q.acknowledged++
	q.uncountMessage(e)
}

// discard lets an entry that is in no list any more die.
func (q *queue) discard(e *entry, reason string) {
	q.deadLetter(e.message, reason)
	q.uncountMessage(e)
}

// deliverOnce is after, done once in a round however often it is called.
func (q *queue) deliverOnce() {
	if q.lastRound != q.vhost.rounds {
		q.lastRound = q.vhost.rounds
		q.deliverReady()
	}
}

// deliverReady is to be called when messages were given back or room was made.
func (q *queue) deliverReady() {
	if q.deleted {
		return
	}
	q.deliver(time.Now())
	q.dropOverflow()
	q.schedule()
}

// get takes the next message for a basic.get; nil where there is none.
func (q *queue) get() *entry {
	q.touch()
	q.dropExpired(time.Now())
	e := q.ready.pop()
	if e != nil {
		q.unacked++
	}
	q.schedule()
	return e
}

// purge drops the messages that are ready, and says how many.
func (q *queue) purge() int {
	n := q.ready.len()
	for e := q.ready.pop(); e != nil; e = q.ready.pop() {
		q.uncountMessage(e)
	}
	q.schedule()
	return n
}

// delete takes the queue away with its messages, bindings and consumers, and says
// how many messages were ready.
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

// touch puts off x-expires.
func (q *queue) touch() { q.lastUse = time.Now() }
