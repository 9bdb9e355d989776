package broker

// One lock guards the exchanges, queues, consumers and messages of a virtual host.
// A connection has two goroutines, and neither waits for the network under that
// lock: the reader takes frames, performs their methods and appends replies to an
// outbox; the writer sends the outbox. One goroutine for each virtual host waits for
// the next deadline: messages and queues that expire.
//
//	reader ── frame ─► channel ── method ─► virtual host ─► exchange ─► queue ─► consumer
//	                                                                               │
//	writer ◄───────────────────────────── outbox ◄────── deliver, reply, confirm ──┘
//
// In this package a section number (§) refers to the AMQP 0-9-1 specification.

import (
	"slices"
	"sync"
	"time"
)

// vhost is a virtual host with its exchanges, queues and bindings.
type vhost struct {
	broker    *Broker
	name      string
	rabbitmq  Release
	limits    Limits
	memory    *memory
	timerWake chan struct{} // has a token when the earliest deadline has changed

	mu            sync.Mutex // guards the fields below and their objects
	exchanges     map[string]*exchange
	queues        map[string]*queue
	replies       map[string]*queue  // by address; see replyToName
	policies      map[string]*policy // by name
	bindings      int
	topologyBytes int64 // see Limits.Topology
	deadlines     deadlines
	stops         int          // calls of Restart in which it is stopped
	deadLetters   []deadLetter // unlock publishes them
	routings      uint64       // number of the routing; see queue.lastRouting
	targets       []*queue
	rounds        uint64 // number of the round of deliveries; see queue.lastRound
}

func newVHost(b *Broker, name string) *vhost {
	v := &vhost{
		broker:    b,
		name:      name,
		rabbitmq:  b.cfg.Release,
		limits:    b.cfg.Limits,
		memory:    b.memory,
		timerWake: make(chan struct{}, 1),
		exchanges: map[string]*exchange{},
		queues:    map[string]*queue{},
		replies:   map[string]*queue{},
		policies:  map[string]*policy{},
	}
	for name, kind := range map[string]string{
		"": "direct", "amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic",
		"amq.headers": "headers", "amq.match": "headers", "amq.rabbitmq.trace": "topic",
	} {
		v.exchanges[name] = newExchange(name, kind, nil)
		v.exchanges[name].durable = true
	}
	v.exchanges["amq.rabbitmq.trace"].internal = true
	return v
}

func (v *vhost) lock() { v.mu.Lock() }

// unlock publishes dead letters before it unlocks, so that a queue never publishes to
// another in the middle of a change.
func (v *vhost) unlock() {
	v.flushDeadLetters()
	v.mu.Unlock()
}

// runTimer handles deadlines of queues until the broker closes.
func (v *vhost) runTimer() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(v.handleDue())
		select {
		case <-timer.C:
		case <-v.timerWake:
		case <-v.broker.done:
			return
		}
	}
}

// handleDue handles all queues whose deadline has passed, and returns the time until
// the next deadline.
func (v *vhost) handleDue() time.Duration {
	v.lock()
	defer v.unlock()
	if v.stops > 0 {
		return time.Hour
	}
	for {
		q, at := v.deadlines.first()
		if q == nil {
			return time.Hour
		}
		if wait := time.Until(at); wait > 0 {
			return wait
		}
		q.handleDue(time.Now())
	}
}

// release requeues the unacknowledged messages of channels that end, and removes their
// consumers. It requeues all messages before the first delivery: a delivery to a
// channel that ends next would count as failed, and the next single active consumer
// gets them before later messages.
func (v *vhost) release(channels ...*channel) {
	var touched []*queue // in an order that does not depend on memory addresses
	touch := func(q *queue) {
		if !slices.Contains(touched, q) {
			touched = append(touched, q)
		}
	}
	for _, ch := range channels {
		ch.ended = true
	}
	for _, ch := range channels {
		ch.rollBack()
		for _, o := range ch.unacked.removeAll() {
			touch(o.queue)
			ch.release(o)
			o.queue.requeue(o.entry, true)
		}
		for _, c := range ch.consumers {
			touch(c.queue)
		}
		clear(ch.consumers)
	}
	for _, q := range touched {
		q.unsubscribe(func(c *consumer) bool { return c.channel.ended })
	}
	for _, q := range touched {
		q.deliverReady()
	}
}

// resume delivers to the consumers of a connection whose outbox has room again.
func (v *vhost) resume(c *connection) {
	v.lock()
	defer v.unlock()
	v.rounds++
	for _, ch := range c.channels {
		ch.deliverToConsumers()
	}
}

// deleteExclusive deletes the exclusive queues of a connection.
func (v *vhost) deleteExclusive(c *connection) {
	for _, q := range v.queues {
		if q.owner == c {
			q.delete()
		}
	}
}
