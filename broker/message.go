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
	failures int // failed deliveries in the queues that dead-lettered it, as far as RabbitMQ adds them up
	queues   int // number of queues that contain it; guarded by the lock of the virtual host
}

func (m *message) key() string { return m.keys[0] }

func (m *message) size() int64 { return int64(len(m.header) + len(m.body)) }

func (m *message) properties() properties {
	p, _ := parseProperties(m.header) // it was valid when it was published
	return p
}

func (m *message) headers() table { return m.properties().headers() }

// redelivery returns the properties with the x-delivery-count and the x-acquired-count of
// a quorum queue, each where it is not zero.
func (m *message) redelivery(failures, acquired int) []byte {
	p := m.properties()
	headers := p.headers().without("x-delivery-count", "x-acquired-count")
	if failures > 0 {
		headers = headers.withLong("x-delivery-count", int64(failures))
	}
	if acquired > 0 {
		headers = headers.withLong("x-acquired-count", int64(acquired))
	}
	p.setHeaders(headers)
	return p.encode()
}

// priority returns the priority, and whether the message has one. It decodes no other
// property, since every queue asks for it.
func (m *message) priority() (level byte, set bool) {
	if flags := (&decoder{rest: m.header}).short(); flags&(1<<(15-propPriority)) == 0 {
		return 0, false
	}
	return m.properties().values[propPriority][0], true
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

// deaths returns the entries of x-death, as a publisher may have sent them.
func (t table) deaths() (all []death) {
	list, _ := t.lookup("x-death")
	if list.kind != 'A' {
		return nil
	}
	for item := range list.items() {
		if item.kind == 'F' {
			all = append(all, table(item.raw).death())
		}
	}
	return all
}

// death returns an entry of x-death. Fields that it lacks are empty.
func (t table) death() death {
	text := func(name string) string {
		f, _ := t.lookup(name)
		value, _ := f.text()
		return value
	}
	d := death{queue: text("queue"), reason: text("reason"), exchange: text("exchange"), first: time.Now(), ttl: -1}
	if count, there := t.lookup("count"); there {
		d.count, _ = count.integer()
	}
	if keys, there := t.lookup("routing-keys"); there && keys.kind == 'A' {
		for key := range keys.items() {
			value, _ := key.text()
			d.keys = append(d.keys, value)
		}
	}
	return d
}
