package pipeline

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// outgoingTo makes a message for each routing key, with its number as the body.
func outgoingTo(keys ...string) []*message.Message {
	var produced []*message.Message
	for i, key := range keys {
		produced = append(produced, NewMessage(schemas.Envelope{RoutingKey: key, Body: fmt.Append(nil, i)}))
	}
	return produced
}

// The messages of one handler are on their way before the first of them is
// confirmed, in their order, and the handler's own is acknowledged after the last.
func TestManyOutgoingDoNotWaitForOneAnother(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		const many = 300
		proxy := b.Proxy(t)
		queue, out := b.Queue(t, nil), b.Queue(t, nil)
		var deafen sync.Once
		keys := strings.Fields(strings.Repeat(out+" ", many))
		r := start(t, b, func(c *Config) {
			c.URL = proxy.URL
			c.Routes = []Route{{Queue: queue, Handler: func(*message.Message) ([]*message.Message, error) {
				deafen.Do(func() {
					proxy.Add(`{"name":"deaf","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
				})
				return outgoingTo(keys...), nil
			}}}
		})
		r.publish("", queue, amqp.Publishing{MessageId: "parent"})
		rabbittest.Eventually(t, "all are there, and none is confirmed", func() bool { return b.Len(t, out) == many })
		if n := len(r.all(func(e event) bool { return e.Action == schemas.Handled })); n > 0 {
			t.Error("handled before the outgoing messages were confirmed")
		}
		for i, d := range b.Take(t, out, many) {
			if string(d.Body) != fmt.Sprint(i) {
				t.Fatalf("message %d is %s", i, d.Body)
			}
		}
		proxy.Remove("deaf")
		proxy.Cut() // unconfirmed messages are published again
		proxy.Mend()
		r.wait(schemas.Handled)
	})
}

// One that cannot be published is the failure of the attempt; the others are out.
func TestOneOfManyOutgoingFails(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue, out := b.Queue(t, nil), b.Queue(t, nil)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{Queue: queue, Policy: attemptsAfter(), Handler: func(*message.Message) ([]*message.Message, error) {
				return outgoingTo(out, "test.nowhere", out), nil
			}}}
		})
		r.publish("", queue, amqp.Publishing{})
		e := r.wait(schemas.Poisoned)
		if !strings.Contains(e.Failure.Message, `outgoing message 2 of 3: queue "test.nowhere" does not exist`) {
			t.Errorf("%+v", e.Failure)
		}
		b.Take(t, out, 2)
	})
}
