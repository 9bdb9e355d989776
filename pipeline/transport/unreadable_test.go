package transport

import (
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/amqpstream"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

// deepHeaders nest deeper than the client library reads, and than it can check.
func deepHeaders() amqp.Table {
	table := amqp.Table{"end": int64(1)}
	for range 40 {
		table = amqp.Table{"h": table}
	}
	return amqp.Table{"t": table, "plain": "text"}
}

// declared is a topology that exists.
type declared struct{ wamqp.DefaultTopologyBuilder }

func (declared) BuildTopology(*amqp.Channel, string, string, wamqp.Config, watermill.LoggerAdapter) error {
	return nil
}

// declare declares a topology and deletes it after the test.
func declare(t *testing.T, b rabbittest.Broker, cfg topology.Config) {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: b.URL, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := topology.Declare(t.Context(), conn, cfg); err != nil {
		t.Fatal(err)
	}
	b.DeleteExchange(t, cfg.Tap[0].Exchange)
	for _, exchange := range cfg.Exchanges() {
		b.DeleteExchange(t, exchange)
	}
	for _, queue := range append(cfg.Queues(), cfg.Routes[0].Queue) {
		b.DeleteQueue(t, queue)
	}
}

// TestOneMessageCannotStopATopic: of a hundred messages on a tapped exchange one has
// headers that the client cannot read. All are handed out once, at the tap and at the
// route, and that one is published on as it was.
func TestOneMessageCannotStopATopic(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		exchange, queue := rabbittest.Name(t), rabbittest.Name(t)
		cfg := topology.Config{
			Topology: schemas.Topology{Prefix: rabbittest.Name(t)},
			Tap:      []topology.Tap{{Exchange: exchange, Type: "topic"}},
			Routes:   []topology.Route{{Queue: queue, Bind: []topology.Bind{{Exchange: exchange, Key: "created"}}}},
		}
		declare(t, b, cfg)
		ch := b.Channel(t)
		for i := range 100 {
			p := amqp.Publishing{Body: fmt.Append(nil, i), Headers: amqp.Table{"i": int32(i)}}
			if i == 50 {
				p.Headers = deepHeaders()
			}
			if err := ch.Publish(exchange, "created", false, false, p); err != nil {
				t.Fatal(err)
			}
		}
		var prints []string
		for _, from := range []string{queue, cfg.Index()} {
			stock := queueConfig(b)
			stock.TopologyBuilder = declared{}
			messages := subscribe(t, newTestSubscriber(t, stock), from)
			for i := range 100 {
				msg := rabbittest.Receive(t, messages)
				if string(msg.Payload) != fmt.Sprint(i) {
					t.Fatalf("%s: got %s, want %d", from, msg.Payload, i)
				}
				if i != 50 {
					msg.Ack()
					continue
				}
				e, _ := schemas.FromContext(msg.Context())
				if stashed, _ := e.Headers[amqpstream.UnreadableHeaders].([]byte); len(stashed) == 0 || msg.Metadata["plain"] != "text" {
					t.Fatalf("%s: headers %v", from, e.Headers)
				}
				prints = append(prints, e.Fingerprint())
				onward := b.Queue(t, nil)
				publish(t, newTestPublisher(t, queueConfig(b)), onward, msg)
				again := rabbittest.Receive(t, subscribe(t, newTestSubscriber(t, queueConfig(b)), onward))
				copied, _ := EnvelopeOf(again)
				copied.Exchange, copied.RoutingKey = e.Exchange, e.RoutingKey
				delete(copied.Headers, "_watermill_message_uuid")
				if got := copied.Fingerprint(); got != prints[0] {
					t.Errorf("%s: published on as %v, was %v", from, copied, e)
				}
				again.Ack()
				msg.Ack()
			}
		}
		if prints[0] != prints[1] {
			t.Errorf("known by %q", prints)
		}
	})
}
