package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// A parking queue that confirms nothing keeps no message in the poison handler.
func TestSilentParkingQueue(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		url, _ := b.Unconfirmed(t, queue+".poison")
		told := make(chan schemas.Event, 100)
		r := start(t, b, func(c *Config) {
			c.URL, c.ConfirmTimeout = url, 100*time.Millisecond
			c.OnEvent = onPoison(func(_ context.Context, e schemas.Event) error { told <- e; return nil })
			c.Routes = []Route{{Queue: queue, Park: true, Policy: attemptsAfter(), Handler: handler(
				func(*message.Message) error { return errBroken })}}
		})
		r.publish("", queue, amqp.Publishing{})
		rabbittest.Receive(t, told)
		r.wait(schemas.Poisoned)
		r.quiet()
	})
}

// Where a delay queue confirms nothing, messages wait in another.
func TestSilentDelayQueue(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		const silent = 150 * time.Millisecond
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.URL, _ = b.Unconfirmed(t, wire.DelaysOf(c.Topology).Queue(silent))
			c.ConfirmTimeout = 100 * time.Millisecond
			c.Routes = []Route{{Queue: queue, Concurrency: 1, Policy: attemptsAfter(silent), Handler: handler(
				func(msg *message.Message) error { return onAttempt(msg, 1, errBroken) })}}
		})
		r.publish("", queue, amqp.Publishing{MessageId: "first"})
		r.publish("", queue, amqp.Publishing{MessageId: "second"})
		handled := map[string]bool{}
		rabbittest.Eventually(t, "both are handled", func() bool {
			for _, e := range r.all(func(e event) bool { return e.Action == schemas.Handled }) {
				handled[e.Envelope.Properties.MessageID] = true
			}
			return len(handled) == 2
		})
		rabbittest.Eventually(t, "they wait in another queue", func() bool {
			return r.log.Count("messages wait for another delay") > 0
		})
	})
}

// A queue to which a handler publishes and which confirms nothing: the attempt counts
// as one at an unavailable service, and the next message gets its turn.
func TestSilentQueueOfOutgoingMessages(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue, silent, out := b.Queue(t, nil), b.Queue(t, nil), b.Queue(t, nil)
		url, recovers := b.Unconfirmed(t, silent)
		r := start(t, b, func(c *Config) {
			c.URL, c.ConfirmTimeout = url, 100*time.Millisecond
			c.Routes = []Route{{Queue: queue, Concurrency: 1, Policy: attemptsAfter(), Handler: func(msg *message.Message) ([]*message.Message, error) {
				return outgoingTo(string(msg.Payload)), nil
			}}}
		})
		r.publish("", queue, amqp.Publishing{Body: []byte(silent)})
		r.publish("", queue, amqp.Publishing{Body: []byte(out)})
		b.Take(t, out, 1)
		recovers()
		for _, e := range r.waitFor(2, schemas.Handled) {
			if e.Attempt != 1 {
				t.Errorf("%+v", e.State)
			}
		}
	})
}
