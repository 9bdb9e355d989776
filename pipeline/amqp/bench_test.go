package amqp

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// BenchmarkHandle compares, in one run, the stock transport with this one under
// Watermill's Router: a handler that takes 20 ms, and one that does nothing. Each
// iteration handles as many messages as take the transport about two seconds.
//
//	go test -run '^$' -bench Handle -benchtime 1x ./pipeline/amqp
func BenchmarkHandle(b *testing.B) {
	broker := rabbittest.Newest(b)
	slow := func(*message.Message) error { time.Sleep(20 * time.Millisecond); return nil }
	none := func(*message.Message) error { return nil }
	stock := func(b *testing.B, cfg wamqp.Config) message.Subscriber {
		cfg.Marshaler = wamqp.DefaultMarshaler{}
		s, err := wamqp.NewSubscriber(cfg, nopLogger{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	ours := func(concurrency int, marshaler wamqp.Marshaler) func(*testing.B, wamqp.Config) message.Subscriber {
		return func(b *testing.B, cfg wamqp.Config) message.Subscriber {
			cfg.Marshaler = marshaler
			return newTestSubscriber(b, cfg, Concurrency(concurrency))
		}
	}
	for _, run := range []struct {
		name       string
		messages   int
		handler    message.NoPublishHandlerFunc
		subscriber func(*testing.B, wamqp.Config) message.Subscriber
	}{
		{"20ms/stock", 100, slow, stock},
		{"20ms/ours-1", 100, slow, ours(1, nil)},
		{"20ms/ours-1000", 60_000, slow, ours(1000, nil)},
		{"20ms/ours-1000-stock-marshaler", 60_000, slow, ours(1000, wamqp.DefaultMarshaler{})},
		{"none/stock", 10_000, none, stock},
		{"none/ours-1", 10_000, none, ours(1, nil)},
		{"none/ours-1000", 40_000, none, ours(1000, nil)},
		{"none/ours-1000-stock-marshaler", 40_000, none, ours(1000, wamqp.DefaultMarshaler{})},
	} {
		b.Run(run.name, func(b *testing.B) {
			cfg := queueConfig(broker)
			queue := broker.Queue(b, nil)
			p := newTestPublisher(b, cfg)
			b.ResetTimer()
			for b.Loop() {
				b.StopTimer()
				fill(b, p, queue, run.messages)
				s := run.subscriber(b, cfg)
				b.StartTimer()
				handleAll(b, s, queue, run.messages, run.handler)
			}
			b.ReportMetric(float64(b.N*run.messages)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

func fill(b *testing.B, p message.Publisher, queue string, n int) {
	body := make([]byte, 1024)
	for range n / 100 {
		batch := make([]*message.Message, 100)
		for i := range batch {
			batch[i] = message.NewMessage(fmt.Sprint(i), body)
			batch[i].Metadata.Set("tenant", "one")
		}
		publish(b, p, queue, batch...)
	}
}

// handleAll runs a Router until it has handled n messages.
func handleAll(b *testing.B, s message.Subscriber, queue string, n int, handler message.NoPublishHandlerFunc) {
	router, err := message.NewRouter(message.RouterConfig{}, nopLogger{})
	if err != nil {
		b.Fatal(err)
	}
	var handled atomic.Int64
	done := make(chan struct{})
	router.AddConsumerHandler("bench", queue, s, func(msg *message.Message) error {
		err := handler(msg)
		if handled.Add(1) == int64(n) {
			close(done)
		}
		return err
	})
	over := make(chan error, 1)
	go func() { over <- router.Run(b.Context()) }()
	<-done
	b.StopTimer()
	if err := router.Close(); err != nil {
		b.Fatal(err)
	}
	if err := <-over; err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
}

// BenchmarkPublisher compares, in one run, the stock publisher that waits for each
// confirm with this one, which awaits those of a call together.
//
//	go test -run '^$' -bench Publisher -benchtime 1x ./pipeline/amqp
func BenchmarkPublisher(b *testing.B) {
	broker := rabbittest.Newest(b)
	for _, run := range []struct {
		name     string
		messages int
		make     func(wamqp.Config) (message.Publisher, error)
	}{
		{"stock", 1000, func(cfg wamqp.Config) (message.Publisher, error) {
			cfg.Marshaler = wamqp.DefaultMarshaler{}
			cfg.Publish.ConfirmDelivery, cfg.Publish.ChannelPoolSize = true, 1
			return wamqp.NewPublisher(cfg, nopLogger{})
		}},
		{"ours", 20_000, func(cfg wamqp.Config) (message.Publisher, error) { return NewPublisher(cfg, nil) }},
	} {
		b.Run(run.name, func(b *testing.B) {
			queue := broker.Queue(b, nil)
			p, err := run.make(queueConfig(broker))
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			for b.Loop() {
				fill(b, p, queue, run.messages)
			}
			b.ReportMetric(float64(b.N*run.messages)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
