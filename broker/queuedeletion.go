package broker

import (
	"maps"
	"slices"
)

// DeleteQueue deletes a queue as an operator does, and returns the bodies of the messages that it
// had, with those that consumers have and had not acknowledged. It returns false where the queue does
// not exist or is exclusive to a connection.
func (b *Broker) DeleteQueue(vhost, name string) (bodies [][]byte, deleted bool) {
	v, there := b.vhosts[vhost]
	if !there {
		return nil, false
	}
	connections := b.openConnections()
	v.lock()
	defer v.unlock()
	q, there := v.queues[name]
	if !there || q.owner != nil {
		return nil, false
	}
	for _, c := range connections {
		if c.vhost == v {
			bodies = append(bodies, c.unackedOf(q)...)
		}
	}
	for e := q.get(); e != nil; e = q.get() {
		q.acknowledge(e)
		bodies = append(bodies, e.message.body)
	}
	for _, d := range q.undelivered {
		bodies = append(bodies, d.message.body)
	}
	q.delete()
	return bodies, true
}

// unackedOf returns the bodies of the messages of a queue that the client has not acknowledged. The
// lock of the virtual host is held.
func (c *connection) unackedOf(q *queue) (bodies [][]byte) {
	for _, id := range slices.Sorted(maps.Keys(c.channels)) {
		for _, o := range c.channels[id].unacked.items {
			if o.entry != nil && o.queue == q {
				bodies = append(bodies, o.entry.message.body)
			}
		}
	}
	return bodies
}
