package broker

import (
	"container/heap"
	"slices"
	"time"
)

// Restart stops the broker for a time and starts it again, as RabbitMQ on one node. It closes
// all connections with CONNECTION_FORCED, and then refuses connections and requests to the
// management API. A restart loses transient queues, transient messages of classic
// queues and, before RabbitMQ 4.3, transient exchanges. Messages that a consumer had not
// acknowledged are redelivered. Restart returns when the broker has started again or is
// closed; listeners stay open.
func (b *Broker) Restart(away time.Duration) {
	ended := b.stopConnections()
	timer := time.AfterFunc(closeTimeout, b.closeStreams)
	for _, c := range ended {
		<-c
	}
	timer.Stop()
	for _, v := range b.vhosts {
		v.stop()
	}
	select {
	case <-time.After(away):
	case <-b.done:
	}
	for _, v := range b.vhosts {
		v.start()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped--
}

// stopConnections closes all connections, and refuses others until Restart ends. It returns what
// is closed at the end of each.
func (b *Broker) stopConnections() (ended []<-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped++
	for c := range b.connections {
		c.shutDown()
		ended = append(ended, c.ended)
	}
	return ended
}

func (b *Broker) isStopped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped > 0
}

// stop removes transient queues, messages and exchanges. Nothing expires until start.
func (v *vhost) stop() {
	v.lock()
	defer v.unlock()
	v.stops++
	for _, q := range v.queues {
		if q.durable {
			q.dropTransient()
		} else {
			q.delete()
		}
	}
	for _, x := range v.exchanges {
		if !x.durable && v.rabbitmq.isBefore43() {
			v.deleteExchange(x)
		}
	}
}

// start begins the time of x-expires again, as RabbitMQ does.
func (v *vhost) start() {
	v.lock()
	defer v.unlock()
	if v.stops--; v.stops > 0 {
		return
	}
	for _, q := range v.queues {
		q.touch()
		q.updateDeadline()
	}
	signal(v.timerWake)
}

// dropTransient drops the transient messages of a classic queue. A quorum queue stores all
// messages.
func (q *queue) dropTransient() {
	if q.settings.quorum {
		return
	}
	for _, e := range q.ready.removeFunc(func(e *entry) bool { return !e.message.isPersistent() }) {
		q.uncountMessage(e)
	}
}

// removeFunc removes the entries for which remove returns true, and returns them.
func (b *backlog) removeFunc(remove func(*entry) bool) (removed []*entry) {
	take := func(e *entry) bool {
		if !remove(e) {
			return false
		}
		removed = append(removed, e)
		b.count--
		b.bytes -= b.sizeOf(e.message)
		return true
	}
	for i := range b.lanes {
		l := &b.lanes[i]
		l.arrived.entries = slices.DeleteFunc(l.arrived.entries[l.arrived.start:], take)
		l.arrived.start = 0
		l.requeued = slices.DeleteFunc(l.requeued, take)
		heap.Init(&l.requeued)
	}
	return removed
}

// isPersistent reports whether the publisher of a message wants it to survive a restart of the broker.
func (m *message) isPersistent() bool {
	mode := m.properties().values[propDeliveryMode]
	return mode != nil && mode[0] == 2
}
