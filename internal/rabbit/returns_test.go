package rabbit

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// TestReturnsBelongToTheirMessages checks that a return modified by the broker is
// matched to its message, even among messages that differ only in a header used for
// routing.
func TestReturnsBelongToTheirMessages(t *testing.T) {
	change := map[string]func([]byte) []byte{
		"unchanged": func(frame []byte) []byte { return frame },
		"timestamp": rabbittest.SetTimestamp,
		"node": func(frame []byte) []byte {
			return rabbittest.AddHeader(frame, "x-routed-by", "S\x00\x00\x00\x04node")
		},
		"unknown": func(frame []byte) []byte { return rabbittest.AddHeader(frame, "added", "t\x01") },
	}
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		for name, change := range change {
			t.Run(name, func(t *testing.T) {
				rabbittest.NoLeaks(t)
				bound, unbound := b.Queue(t, amqp.Table{"x-queue-type": "quorum"}), rabbittest.Name(t)
				exchange := rabbittest.Name(t)
				b.DeleteExchange(t, exchange)
				ch := b.Channel(t)
				if err := ch.ExchangeDeclare(exchange, "headers", true, false, false, false, nil); err != nil {
					t.Fatal(err)
				}
				if err := ch.QueueBind(bound, "", exchange, false, amqp.Table{"x-match": "all", "queue": bound}); err != nil {
					t.Fatal(err)
				}
				p := publisher(t, open(t, b.Rewrite(t, change), nil), 100)
				const rounds = 50
				var routed, lost []*Pending
				for range rounds {
					for _, queue := range []string{bound, unbound} {
						m := Message{Exchange: exchange, RoutingKey: "key", Publishing: amqp.Publishing{
							Body: []byte("the same"), DeliveryMode: amqp.Persistent, Headers: amqp.Table{"queue": queue},
						}}
						pending, err := p.Send(testContext(t), m)
						if err != nil {
							t.Fatal(err)
						}
						if queue == bound {
							routed = append(routed, pending)
						} else {
							lost = append(lost, pending)
						}
					}
				}
				waitAll(t, routed)
				for i, m := range lost {
					var unroutable *UnroutableError
					if err := m.Wait(testContext(t)); !errors.As(err, &unroutable) {
						t.Errorf("message %d reached no queue, and the outcome is %v", i, err)
					}
				}
				arrived := b.Len(t, bound)
				if arrived < rounds || name != "unknown" && arrived != rounds {
					t.Errorf("%d of %d arrived", arrived, rounds)
				}
				t.Log(fmt.Sprint(arrived-rounds, " were sent again"))
			})
		}
	})
}

// aMessage returns one of a few messages, so that many are identical.
func aMessage(a, b byte) Message {
	m := Message{Exchange: "e", RoutingKey: string('a' + a&1), Optional: a&2 > 0}
	p := &m.Publishing
	p.Body, p.MessageId = []byte{a >> 2 & 1}, string('0'+a>>3&1)
	if a&16 > 0 {
		p.Timestamp = time.Unix(int64(a>>5), 0)
	}
	p.Headers = amqp.Table{}
	for bit, header := range []struct {
		name  string
		value any
	}{
		{"n", 1},
		{"t", amqp.Table{"b": []byte("b"), "n": int64(1), "when": time.Unix(1, 2)}},
		{"watership-queue", "orders"},
		{"x-match", "all"},
		{"BCC", []any{"elsewhere"}},
		{"timestamp_in_ms", int64(1)},
	} {
		if b>>bit&1 > 0 {
			p.Headers[header.name] = header.value
		}
	}
	if b&64 > 0 {
		p.Headers["watership-queue"] = "invoices"
	}
	return m
}

// aReturn returns m as a broker returns it, with changes that brokers make, and
// with bit 8 of how another change.
func aReturn(m *Message, how byte) amqp.Return {
	p := &m.Publishing
	r := amqp.Return{
		Exchange: m.Exchange, RoutingKey: m.RoutingKey, ReplyCode: 312, Body: p.Body,
		MessageId: p.MessageId, Timestamp: p.Timestamp, Headers: amqp.Table{},
	}
	for name, value := range p.Headers {
		if n, ok := value.(int); ok {
			value = int32(n)
		}
		if name != "BCC" {
			r.Headers[name] = value
		}
	}
	if _, stamped := r.Headers["timestamp_in_ms"]; how&1 > 0 || how&2 > 0 && !stamped {
		r.Headers["timestamp_in_ms"], r.Timestamp = int64(12345), time.Unix(12, 0)
	}
	if how&4 > 0 {
		r.Headers["x-routed-by"] = "node"
	}
	if how&8 > 0 {
		r.Headers["added"] = true
	}
	return r
}

// FuzzReturns checks that, among identical messages, at most as many are confirmed
// as were routed, and at most as many returned as the broker returned.
func FuzzReturns(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 0, 0, 0, 0, 0}, byte(0))
	f.Add([]byte{0, 4, 0, 0, 64, 1, 0, 68, 1}, byte(1))
	f.Add([]byte{16, 1, 1, 48, 1, 0, 0, 8, 1, 0, 16, 0}, byte(7))
	f.Add([]byte{1, 1, 1, 1, 2, 0, 2, 4, 0, 5, 4, 1}, byte(8))
	f.Fuzz(func(t *testing.T, given []byte, how byte) {
		returns := make(chan amqp.Return, len(given))
		w := &window{returns: returns}
		var routed []bool
		for message := range slices.Chunk(given[:min(len(given), 60)], 3) {
			if len(message) < 3 {
				break
			}
			m := &Pending{message: aMessage(message[0], message[1])}
			w.sent.all = append(w.sent.all, m)
			arrives := message[2]&1 == 0
			routed = append(routed, arrives)
			if !arrives && !m.message.Optional {
				returns <- aReturn(&m.message, how)
			}
		}
		w.matchReturns()
		confirmed := func(m *Pending) bool { return m.returned == nil && !m.ambiguous }
		for _, one := range w.sent.all {
			var arrived, gone, called, returned int
			for i, m := range w.sent.all {
				if m.message.Optional || !interchangeable([]*Pending{one, m}) {
					continue
				}
				arrived, called = arrived+count(routed[i]), called+count(confirmed(m))
				gone, returned = gone+count(!routed[i]), returned+count(m.returned != nil)
			}
			if called > arrived || returned > gone {
				t.Fatalf("%+v: %d arrived and %d are called confirmed; %d were returned and %d are called so",
					one.message, arrived, called, gone, returned)
			}
			if one.message.Optional && !confirmed(one) {
				t.Fatalf("%+v: was taken for returned", one.message)
			}
		}
	})
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
