package rabbit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/amqpstream"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// nested returns headers nested deeper than the client library can decode; its
// encoder has no limit. They contain every field type.
func nested(depth int) amqp.Table {
	value := amqp.Table{
		"text": "ü", "bytes": []byte{0, 255}, "void": nil, "bool": true, "int8": int8(-1), "uint8": uint8(200),
		"int16": int16(-2), "uint16": uint16(60000), "int32": int32(-3), "uint32": uint32(1 << 31), "int64": int64(1 << 40),
		"float32": float32(1.5), "float64": 2.5, "decimal": amqp.Decimal{Scale: 2, Value: 100},
		"time": time.Unix(1_700_000_000, 0), "array": []any{"a", int32(1), []any{}},
	}
	for range depth - 1 {
		value = amqp.Table{"h": value, "z": "last", "a": []any{"first"}}
	}
	return value
}

// headerTables records the encoded headers of the messages that pass a proxy.
type headerTables struct {
	mu  sync.Mutex // guards all
	all [][]byte
}

func (h *headerTables) record(frame []byte) []byte {
	if table, present := rabbittest.HeaderTable(frame); present {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, slices.Clone(table))
	}
	return frame
}

// sorted returns the bytes of a recorded table, sorted, since brokers change the order
// of headers.
func (h *headerTables) sorted(n int) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(slices.Values(h.all[n]))
}

// unreadable returns headers that the client library cannot decode, each for
// another reason.
func unreadable() map[string]amqp.Table {
	many := amqp.Table{}
	for i := range 9000 {
		many[fmt.Sprintf("h%d", i)] = nil
	}
	return map[string]amqp.Table{
		"too deep":   {"t": nested(33), "plain": "text", "also": amqp.Table{"ok": true}},
		"far deeper": {"t": nested(1000)},
		"too long":   {"array": make([]any, 8193), "table": many, "plain": "text"},
		"too many":   many,
		"reserved":   {amqpstream.UnreadableHeaders: []byte("theirs"), "plain": "text"},
	}
}

func TestUnreadableHeadersDoNotStopOtherMessages(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		for name, headers := range unreadable() {
			t.Run(name, func(t *testing.T) {
				rabbittest.NoLeaks(t)
				queue := b.Queue(t, amqp.Table{"x-queue-type": "quorum"})
				ch := b.Channel(t)
				for i := range 100 {
					p := amqp.Publishing{Body: fmt.Append(nil, i), MessageId: fmt.Sprint(i)}
					if p.Headers = (amqp.Table{"i": int32(i)}); i == 50 {
						p.Headers = headers
					}
					if err := ch.Publish("", queue, false, false, p); err != nil {
						t.Fatal(err)
					}
				}
				var received headerTables
				c := open(t, b.Rewrite(t, received.record), func(c *Config) { c.LargeFrames = true })
				r := consume(t, c, ConsumeConfig{Queue: queue, Prefetch: 200})
				session := rabbittest.Receive(t, r.sessions)
				var unfit amqp.Delivery
				for i := range 100 {
					d := rabbittest.Receive(t, r.deliveries)
					if string(d.Body) != fmt.Sprint(i) || d.MessageId != fmt.Sprint(i) {
						t.Fatalf("got %s (%s), want %d", d.Body, d.MessageId, i)
					}
					if i == 50 {
						unfit = d
					} else if d.Headers["i"] != int32(i) {
						t.Fatalf("headers %v", d.Headers)
					}
				}
				if err := session.Ack(unfit.DeliveryTag, false); err != nil {
					t.Error(err)
				}
				stashed, _ := unfit.Headers[amqpstream.UnreadableHeaders].([]byte)
				if len(stashed) == 0 || headers["plain"] != nil && unfit.Headers["plain"] != "text" {
					t.Fatalf("headers %.200v", unfit.Headers)
				}
				republish(t, b, unfit, received.sorted(50))
			})
		}
	})
}

// republish publishes a delivery again and expects its original headers.
func republish(t *testing.T, b rabbittest.Broker, d amqp.Delivery, original []byte) {
	t.Helper()
	queue := b.Queue(t, nil)
	var sent headerTables
	c := open(t, b.RewriteSent(t, sent.record), nil)
	m := Message{RoutingKey: queue, Publishing: schemas.FromDelivery(d).Publishing()}
	if err := publisher(t, c, 0).Publish(testContext(t), m); err != nil {
		t.Fatal(err)
	}
	ch, err := c.Channel(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	again, ok, err := ch.Get(queue, true)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got := sent.sorted(0); !bytes.Equal(got, original) {
		t.Errorf("published %d bytes of headers, received %d: %.300q", len(got), len(original), sent.all[0])
	}
	if got, want := fmt.Sprint(again.Headers), fmt.Sprint(d.Headers); got != want {
		t.Errorf("came as %.300s, was %.300s", got, want)
	}
}

// TestUnreadableHeadersKeepTheirState checks that the fingerprint of a message is
// the same after every hop, including dead-lettering by the broker.
func TestUnreadableHeadersKeepTheirState(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		c := open(t, b.URL, func(c *Config) { c.LargeFrames = true })
		p := publisher(t, c, 0)
		last := b.Queue(t, amqp.Table{"x-queue-type": "quorum"})
		wait := b.Queue(t, amqp.Table{
			"x-queue-type": "quorum", "x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": last,
		})
		headers := unreadable()["too deep"]
		headers["CC"] = []any{"elsewhere"}
		if err := b.Channel(t).Publish("", last, false, false, amqp.Publishing{Headers: headers, Priority: 3}); err != nil {
			t.Fatal(err)
		}
		r := consume(t, c, ConsumeConfig{Queue: last, Prefetch: 1})
		session := rabbittest.Receive(t, r.sessions)
		var known string
		for attempt := range 4 {
			d := rabbittest.Receive(t, r.deliveries)
			verifier := wire.Verifier{FormerRelease: true} // former releases used the default exchange
			belief, err := verifier.Verify(schemas.FromDelivery(d), d.Exchange, last)
			if err != nil || belief.Mismatch || belief.State.Attempt != attempt {
				t.Fatalf("attempt %d: %+v, %v; headers %.500v", attempt, belief.State, err, d.Headers)
			}
			if known == "" {
				known = belief.State.Fingerprint
			}
			e := belief.Envelope
			if got := e.Fingerprint(); got != known || e.Headers["CC"] == nil || e.RoutingKey != last {
				t.Fatalf("attempt %d: known by %s, then by %s: %.500v", attempt, known, got, e.Headers)
			}
			state := belief.State.Failed(time.Now(), 0, last, schemas.Failure{Message: "again"})
			if err := p.Publish(testContext(t), Message{RoutingKey: wait, Publishing: wire.DefaultFrameMax.Wrap(e, state)}); err != nil {
				t.Fatal(err)
			}
			if err := session.Ack(d.DeliveryTag, false); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestUnreadableHeadersCanBeReturned checks that an unroutable message with such
// headers is returned on the publishing connection without ending it.
func TestUnreadableHeadersCanBeReturned(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		var logged rabbittest.Log
		c := open(t, b.URL, func(c *Config) { c.Logger = logged.Logger() })
		p := publisher(t, c, 0)
		queue := b.Queue(t, nil)
		stashed := []byte("\x01hV")
		for range 50 { // an encoded table with one header
			stashed = append(binary.BigEndian.AppendUint32([]byte("\x01hF"), uint32(len(stashed))), stashed...)
		}
		all := sendAll(t, p, queue, 50)
		lost, err := p.Send(testContext(t), Message{RoutingKey: rabbittest.Name(t), Publishing: amqp.Publishing{
			Headers: amqp.Table{amqpstream.UnreadableHeaders: stashed, "a": "b"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		waitAll(t, append(all, sendAll(t, p, queue, 50)...))
		var unroutable *UnroutableError
		if err := lost.Wait(testContext(t)); !errors.As(err, &unroutable) {
			t.Errorf("got %v", err)
		}
		if logged.Count("lost") > 0 {
			t.Error(logged.String())
		}
	})
}

func TestReservedHeaderIsRefused(t *testing.T) {
	m := Message{Publishing: amqp.Publishing{Headers: amqp.Table{amqpstream.UnreadableHeaders: "text"}}}
	var refused *RefusedError
	if err := m.check(); !errors.As(err, &refused) || refused.Code != amqp.SyntaxError {
		t.Errorf("got %v", err)
	}
}
