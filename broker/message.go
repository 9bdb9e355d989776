package broker

import (
	"strconv"
	"time"
)

// message is what was published, shared by the queues it is in. It never changes.
type message struct {
	exchange string
	keys     []string // the routing key, then those of CC and of BCC
	bcc      int      // how many of the keys are of BCC
	header   []byte   // the properties, as they are sent
	body     []byte
	ttl      int64 // milliseconds, -1 for none
	deaths   []death
	queues   int // queues that hold it; guarded by the vhost's lock
}

func (m *message) key() string { return m.keys[0] }

func (m *message) size() int64 { return int64(len(m.header) + len(m.body)) }

func (m *message) properties() properties {
	p, _ := parseProperties(m.header) // read before, when it was published
	return p
}

func (m *message) headers() table { return m.properties().headers() }

// redelivery is the header of a message that a quorum queue delivers again.
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
	ttl           int64 // what the message had, -1 for none
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
