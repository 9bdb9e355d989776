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
	"sync"
	"time"
)

// vhost is a virtual host: exchanges, queues and bindings of its own.
type vhost struct {
	broker    *Broker
	name      string
	limits    Limits
	memory    *memory
	timerWake chan struct{} // has a token when the earliest deadline may have moved

	mu            sync.Mutex // guards what follows, and all that hangs on it
	exchanges     map[string]*exchange
	queues        map[string]*queue
	replies       map[string]*queue // by address; see replyToName
	bindings      int
	topologyBytes int64 // see Limits.Topology
	deadlines     deadlines
	deadLetters   []deadLetter // to be published before the lock is let go
	routings      uint64       // numbers routings; see queue.routed
	targets       []*queue
	rounds        uint64 // numbers rounds of deliveries; see queue.round
}

func newVHost(b *Broker, name string) *vhost {
	v := &vhost{
		broker:    b,
		name:      name,
		limits:    b.cfg.Limits,
		memory:    b.memory,
		timerWake: make(chan struct{}, 1),
		exchanges: map[string]*exchange{},
		queues:    map[string]*queue{},
		replies:   map[string]*queue{},
	}
	for name, kind := range map[string]string{
		"": "direct", "amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic",
		"amq.headers": "headers", "amq.match": "headers", "amq.rabbitmq.trace": "topic",
	} {
		v.exchanges[name] = newExchange(name, kind)
		v.exchanges[name].durable = true
	}
	v.exchanges["amq.rabbitmq.trace"].internal = true
	return v
}

func (v *vhost) lock() { v.mu.Lock() }

// unlock first publishes what died meanwhile: a queue never publishes to another
// in the middle of a change of its own.
func (v *vhost) unlock() {
	v.flushDeadLetters()
	v.mu.Unlock()
}

// runTimer wakes queues when something in them falls due.
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

// handleDue lets every queue whose deadline has come do what is due, and says how
// long it is to the next one.
func (v *vhost) handleDue() time.Duration {
	v.lock()
	defer v.unlock()
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

// release takes back the unacknowledged messages and the consumers of channels
// that end. All messages are back before one is delivered again: a delivery to a
// channel that is about to end would count as failed, and the next single active
// consumer gets them before later ones.
func (v *vhost) release(channels ...*channel) {
	touched := map[*queue]struct{}{}
	for _, ch := range channels {
		ch.ended = true
	}
	for _, ch := range channels {
		ch.rollBack()
		for _, o := range ch.unacked.removeAll() {
			touched[o.queue] = struct{}{}
			ch.requeue(o)
		}
		for _, c := range ch.consumers {
			touched[c.queue] = struct{}{}
		}
		clear(ch.consumers)
	}
	for q := range touched {
		q.unsubscribe(func(c *consumer) bool { return c.channel.ended })
	}
	for q := range touched {
		q.deliverReady()
	}
}

// resume offers messages to the consumers of a connection that has room again.
func (v *vhost) resume(c *connection) {
	v.lock()
	defer v.unlock()
	v.rounds++
	for _, ch := range c.channels {
		ch.deliverToConsumers()
	}
}

// deleteExclusive deletes the queues that end with a connection.
func (v *vhost) deleteExclusive(c *connection) {
	for _, q := range v.queues {
		if q.owner == c {
			q.delete()
		}
	}
}
