package pipeline

import (
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

// An event without the body carries the stream that the rules find in the body, and none that
// a publisher claims. Events with the body carry none: the indexer finds it.
func TestEventsWithoutBodyCarryTheStream(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		streams, err := streamid.New(streamid.Rule{Key: "order.#", ID: "order-{body.json.order}", Version: "{headers.version}"})
		if err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int32
		exchange, queue := topicExchange(t, b), rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.Streams = streams
			c.Tap = []Tap{{Exchange: exchange, Type: "topic"}}
			c.Routes = []Route{{Queue: queue, Bind: []Binding{{Exchange: exchange, Key: "#"}}, Handler: handler(func(*message.Message) error {
				if calls.Add(1)%2 == 1 {
					return errBroken
				}
				return nil
			}), Concurrency: 1}}
		})
		forged := amqp.Table{"version": int32(3), "watership-stream": "forged", "watership-stream-version": int64(9), "watership-v": int64(1)}
		want := map[string]schemas.MessageStream{"order.a": {ID: "order-7", Version: 3, HasVersion: true}, "other.b": {}}
		for _, key := range []string{"order.a", "other.b"} {
			r.publish(exchange, key, amqp.Publishing{MessageId: key, Headers: forged, Body: []byte(`{"order": 7}`)})
			r.waitFor(len(r.all(func(e event) bool { return e.Action == schemas.Handled }))+1, schemas.Handled)
		}
		for _, e := range r.all(func(event) bool { return true }) {
			if e.Body > 0 || e.Stream != want[e.Envelope.RoutingKey] {
				t.Errorf("%s of %s, with %d bytes, has stream %+v", e.Action, e.Envelope.RoutingKey, e.Body, e.Stream)
			}
		}
		r.publish("", queue, amqp.Publishing{MessageId: "untapped", Body: []byte(`{"order": 7}`)})
		r.waitFor(3, schemas.Handled)
		for _, e := range r.all(func(e event) bool { return e.Envelope.Properties.MessageID == "untapped" }) {
			if e.Body == 0 || e.Stream != (schemas.MessageStream{}) {
				t.Errorf("%s with %d bytes has stream %+v", e.Action, e.Body, e.Stream)
			}
		}
	})
}
