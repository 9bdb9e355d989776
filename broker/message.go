package broker

import (
	"strconv"
	"time"
)

// message is a published message, shared by the queues that contain it. Its content
// never changes.
type message struct {
	exchange string
	keys     []string // the routing key, then the keys of CC and of BCC
	bcc      int      // number of keys of BCC
	header   []byte   // the encoded properties
	body     []byte
	ttl      int64 // milliseconds, -1 for none
	deaths   []death
	queues   int // number of queues that contain it; guarded by the lock of the virtual host
}

func (m *message) key() string { return m.keys[0] }

func (m *message) size() int64 { return int64(len(m.header) + len(m.body)) }

func (m *message) properties() properties {
	p, _ := parseProperties(m.header) // it was valid when it was published
	return p
}

func (m *message) headers() table { return m.properties().headers() }

// redelivery returns the properties with the x-delivery-count of a quorum queue.
func (m *message) redelivery(count int) []byte {
	p := m.properties()
	p.setHeaders(p.headers().without("x-delivery-count").withLong("x-delivery-count", int64(count)))
	return p.encode()
}

// death is an entry of x-death (https://www.rabbitmq.com/docs/dlx#effects).
type death struct {
	queue, reason string
	exchange      string
	keys          []string
	count         int64
	first         time.Time
	ttl           int64 // TTL of the message, -1 for none
}

func (d death) table() table {
	var keys []byte
	for _, key := range d.keys {
		keys = textItem(keys, key)
	}
	t := table(nil).
		withLong("count", d.count).
		withText("reason", d.reason).
		withText("queue", d.queue).
		withTimestamp("time", d.first.Unix()).
		withText("exchange", d.exchange).
		withArray("routing-keys", keys)
	if d.ttl >= 0 {
		t = t.withText("original-expiration", strconv.FormatInt(d.ttl, 10))
	}
	return t
}
