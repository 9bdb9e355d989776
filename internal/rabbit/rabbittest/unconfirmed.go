package rabbittest

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// Unconfirmed starts a proxy before the broker by way of which messages with a
// routing key are taken and never confirmed, as by a quorum queue without a
// majority, until recover is called: what is published from then on is confirmed. It
// returns the broker's URL by way of the proxy, which ends with the test.
func (b Broker) Unconfirmed(t testing.TB, key string) (url string, recover func()) {
	t.Helper()
	var over atomic.Bool
	url = b.between(t, func() (frames, frames) {
		c := &confirms{key: key, over: &over, channels: map[uint16]*published{}}
		return c.up, c.down
	})
	return url, func() { over.Store(true) }
}

// confirms are those of one connection.
type confirms struct {
	key      string
	over     *atomic.Bool
	mu       sync.Mutex // guards channels
	channels map[uint16]*published
}

// published are the messages of a channel that are not confirmed.
type published struct {
	last  uint64
	open  []uint64
	stuck map[uint64]bool
}

// Methods, with their class (AMQP 0-9-1 §1.8; confirm.select is RabbitMQ's).
const (
	confirmSelect = 85<<16 | 10
	basicPublish  = 60<<16 | 40
	basicAck      = 60<<16 | 80
)

func method(frame []byte) (name uint32, channel uint16, arguments []byte) {
	if frame[0] != methodFrame {
		return 0, 0, nil
	}
	return binary.BigEndian.Uint32(frame[frameStart:]), binary.BigEndian.Uint16(frame[1:]), frame[frameStart+4:]
}

func (c *confirms) up(frame []byte) []byte {
	name, channel, arguments := method(frame)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch ch := c.channels[channel]; {
	case name == confirmSelect:
		c.channels[channel] = &published{stuck: map[uint64]bool{}}
	case name == basicPublish && ch != nil:
		ch.last++
		ch.open = append(ch.open, ch.last)
		rest := arguments[2:]
		rest = rest[1+int(rest[0]):] // the exchange
		ch.stuck[ch.last] = string(rest[1:1+int(rest[0])]) == c.key && !c.over.Load()
	}
	return frame
}

// down confirms one message at a time, and those that are stuck not at all.
func (c *confirms) down(frame []byte) []byte {
	name, channel, arguments := method(frame)
	if name != basicAck {
		return frame
	}
	tag, multiple := binary.BigEndian.Uint64(arguments), arguments[8]&1 > 0
	c.mu.Lock()
	defer c.mu.Unlock()
	var acks []byte
	ch := c.channels[channel]
	ch.open = slices.DeleteFunc(ch.open, func(open uint64) bool {
		confirmed := open == tag || multiple && open < tag
		if confirmed && !ch.stuck[open] {
			ack := slices.Clone(frame)
			binary.BigEndian.PutUint64(ack[frameStart+4:], open)
			ack[frameStart+4+8] = 0
			acks = append(acks, ack...)
		}
		return confirmed
	})
	return acks
}
