package rabbittest

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// Unconfirmed starts a proxy for the broker that drops the confirms of messages
// with a routing key, like a quorum queue without a majority. Messages published
// after recover is called are confirmed. It returns the broker's URL through the
// proxy, which stops when the test ends.
func (a Address) Unconfirmed(t testing.TB, key string) (url string, recover func()) {
	t.Helper()
	var over atomic.Bool
	url = a.startProxy(t, func() (rewriteFrame, rewriteFrame) {
		c := &confirms{key: key, over: &over, channels: map[uint16]*published{}}
		return c.up, c.down
	})
	return url, func() { over.Store(true) }
}

// confirms rewrites the confirms of one connection.
type confirms struct {
	key      string
	over     *atomic.Bool
	mu       sync.Mutex // guards channels
	channels map[uint16]*published
}

// published holds the unconfirmed messages of a channel.
type published struct {
	last  uint64
	open  []uint64
	stuck map[uint64]bool
}

// Method ids with their class (AMQP 0-9-1 §1.8; confirm.select is an extension of
// RabbitMQ).
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

// down splits an acknowledgement of several messages into one per message, and
// drops the acknowledgements of stuck messages.
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
