package transport

import (
	"hash/maphash"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// maxNackCounts bounds the number of remembered messages.
const maxNackCounts = 4096

// nackCounter counts the nacks of a message. Quorum queues have a header for that, another
// one since RabbitMQ 4.3; for classic queues it remembers, by content, the messages that this
// subscription has nacked. A wrong count (equal messages, a full memory) gives a pause of another length.
type nackCounter struct {
	seed maphash.Seed

	mu    sync.Mutex // guards nacks
	nacks map[uint64]int
}

func newNackCounter() *nackCounter {
	return &nackCounter{seed: maphash.MakeSeed(), nacks: map[uint64]int{}}
}

// nacked counts a nack and returns the number of nacks, this one included.
func (t *nackCounter) nacked(d *amqp.Delivery) int {
	for _, header := range []string{"x-acquired-count", "x-delivery-count"} {
		if count, ok := d.Headers[header].(int64); ok {
			return int(min(count, 1<<20)) + 1
		}
	}
	key := t.key(d)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.nacks) >= maxNackCounts && t.nacks[key] == 0 {
		clear(t.nacks)
	}
	t.nacks[key]++
	return t.nacks[key]
}

// acked forgets a message that had been nacked.
func (t *nackCounter) acked(d *amqp.Delivery) {
	if !d.Redelivered {
		return
	}
	key := t.key(d)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.nacks, key)
}

func (t *nackCounter) key(d *amqp.Delivery) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	for _, part := range [...]string{d.Exchange, d.RoutingKey, d.MessageId} {
		h.WriteString(part)
		h.WriteByte(0)
	}
	if id, ok := d.Headers[defaultUUIDHeader].(string); ok {
		h.WriteString(id)
	}
	h.Write(d.Body)
	return h.Sum64()
}
