package pipeline

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// TestMaxBytes: the messages that a route handles at once fit in MaxBytes, and a larger
// message is handled alone. Every handler publishes its messages.
func TestMaxBytes(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		const limit, messages, small, large = 512 << 10, 20, 128 << 10, 768 << 10
		var handled, most atomic.Int64
		exchange, queue := topicExchange(t, b), rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.MaxBytes = limit
			c.Breaker.Messages = -1 // each message fails once
			c.Routes = []Route{{Queue: queue, Bind: []Binding{{exchange, "#"}}, Handler: handler(func(msg *message.Message) error {
				size := int64(len(msg.Payload))
				now := handled.Add(size)
				defer handled.Add(-size)
				for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
				}
				time.Sleep(5 * time.Millisecond) // so that others could begin
				return errBroken
			})}}
		})
		for i := range messages {
			size := small
			if i == messages/2 {
				size = large
			}
			r.publish(exchange, "k", amqp.Publishing{Body: make([]byte, size), MessageId: string(rune('a' + i))})
		}
		for _, e := range r.waitFor(messages, schemas.Poisoned) {
			if size := len(e.Envelope.Body); e.Attempt != 2 || size != small && size != large {
				t.Errorf("given up after %d attempts, with %d bytes", e.Attempt, size)
			}
		}
		if most := most.Load(); most != large {
			t.Errorf("%d bytes at once", most)
		}
	})
}

// TestStopDuringAMemoryAlarm: the broker stops reading in the middle of a large message.
func TestStopDuringAMemoryAlarm(t *testing.T) {
	rabbittest.NeedFaults(t)
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		failed := make(chan struct{}, 100)
		goOn := make(chan struct{})
		r := startSilent(t, b, func(c *Config) {
			c.StopTimeout = 2 * time.Second
			c.TopologyEvery = 100 * time.Millisecond // looks at the topology meanwhile
			c.Routes = []Route{{Queue: queue, Handler: handler(func(*message.Message) error {
				failed <- struct{}{}
				<-goOn
				return errBroken
			})}}
		})
		for range 8 {
			r.publish("", queue, amqp.Publishing{Body: make([]byte, 15<<20), DeliveryMode: amqp.Persistent})
		}
		rabbittest.Receive(t, failed)
		lift := b.Alarm(t)
		close(goOn)
		rabbittest.Eventually(t, "a handler goes on", func() bool { return len(failed) > 0 || r.log.Count("takes no messages") > 0 })
		if err := r.stop(); err != nil { // fails where it does not end
			t.Log(err)
		}
		lift()
	})
}
