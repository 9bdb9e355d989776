package pipeline

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// BenchmarkHandling compares plain handling with fail, retry, handled, in one run:
// messages of 1 KiB by a tapped exchange, on quorum queues. The rate is of
// messages, from the first publish to the last `handled` event.
func BenchmarkHandling(b *testing.B) {
	broker := rabbittest.NewestServer(b)
	b.Run("plain", func(b *testing.B) {
		benchmark(b, broker, func(*message.Message) error { return nil })
	})
	b.Run("retried", func(b *testing.B) {
		benchmark(b, broker, func(msg *message.Message) error { return onAttempt(msg, 1, errBroken) })
	})
}

func benchmark(b *testing.B, broker rabbittest.Broker, handle func(*message.Message) error) {
	const messages = 5000
	var left atomic.Int64
	done := make(chan struct{}, 1)
	queue, exchange := rabbittest.Name(b), topicExchange(b, broker)
	r := startSilent(b, broker, func(c *Config) {
		c.QueueType, c.Logger, c.Breaker.Messages = Quorum, slog.New(slog.DiscardHandler), -1
		c.Tap = []Tap{{Exchange: exchange, Type: "topic"}}
		c.Routes = []Route{{
			Queue: queue, Bind: []Binding{{exchange, "#"}}, Concurrency: 256, Policy: attemptsAfter(10 * time.Millisecond),
			Handler: handler(func(msg *message.Message) error {
				err := handle(msg)
				if err == nil && left.Add(-1) == 0 {
					done <- struct{}{}
				}
				return err
			}),
		}}
	})
	r.follow(r.topology.Log(), func(amqp.Delivery) {})
	r.follow(r.topology.Index(), func(amqp.Delivery) {})
	body := make([]byte, 1<<10)
	for b.Loop() {
		left.Store(messages)
		for range messages {
			r.publish(exchange, "order", amqp.Publishing{Body: body, DeliveryMode: amqp.Persistent})
		}
		<-done
	}
	b.ReportMetric(float64(messages*b.N)/b.Elapsed().Seconds(), "messages/s")
}
