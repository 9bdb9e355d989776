package transport

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// backoff is the pause between a nack and the return of the message to its queue.
type backoff struct {
	min, max time.Duration
}

// pause before the message goes back for the n-th time, n from 1.
func (p backoff) pause(n int) time.Duration {
	if p.min <= 0 {
		return 0
	}
	d := p.max
	if shift := n - 1; shift < 32 && p.min<<shift > 0 {
		d = min(p.min<<shift, p.max)
	}
	return d - rand.N(d/2+1)
}

// maxNackCounts bounds what is remembered of messages that come back.
const maxNackCounts = 4096

// nackCounter counts how often a message has come back. Quorum queues say so; for
// classic ones it remembers, by content, what this subscription has nacked. A
// wrong count (equal messages, a full memory) costs a pause of another length.
type nackCounter struct {
	seed maphash.Seed

	mu    sync.Mutex // guards nacks
	nacks map[uint64]int
}

func newNackCounter() *nackCounter {
	return &nackCounter{seed: maphash.MakeSeed(), nacks: map[uint64]int{}}
}

// nacked counts a nack and returns how many there have been, this one included.
func (t *nackCounter) nacked(d *amqp.Delivery) int {
	if count, ok := d.Headers["x-delivery-count"].(int64); ok {
		return int(min(count, 1<<20)) + 1
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
