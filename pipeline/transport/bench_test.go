package transport

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// BenchmarkHandle compares the stock transport with this one under Watermill's
// Router: a handler that takes 20 ms, and one that does nothing. Each iteration is a
// round in which every transport takes its turn, so that other load of the machine
// affects all of them; figures are medians of the rounds.
//
//	go test -run '^$' -bench Handle -benchtime 5x ./pipeline/transport
func BenchmarkHandle(b *testing.B) {
	slow := func(*message.Message) error { time.Sleep(20 * time.Millisecond); return nil }
	none := func(*message.Message) error { return nil }
	b.Run("20ms", func(b *testing.B) {
		rounds(b, slow, []candidate{
			{"stock", 100, stock},
			{"ours-1000", 40_000, ours(1000, nil)},
			{"ours-1000-stock-marshaler", 40_000, ours(1000, wamqp.DefaultMarshaler{})},
		})
	})
	b.Run("none", func(b *testing.B) {
		rounds(b, none, []candidate{
			{"stock", 2_000, stock},
			{"ours-1", 2_000, ours(1, nil)},
			{"ours-1000", 40_000, ours(1000, nil)},
		})
	})
}

// candidate is a transport in a round.
type candidate struct {
	name       string
	messages   int
	subscriber func(*testing.B, wamqp.Config) message.Subscriber
}

func stock(b *testing.B, cfg wamqp.Config) message.Subscriber {
	cfg.Marshaler = wamqp.DefaultMarshaler{}
	s, err := wamqp.NewSubscriber(cfg, nopLogger{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func ours(concurrency int, marshaler wamqp.Marshaler) func(*testing.B, wamqp.Config) message.Subscriber {
	return func(b *testing.B, cfg wamqp.Config) message.Subscriber {
		cfg.Marshaler = marshaler
		return newTestSubscriber(b, cfg, Concurrency(concurrency))
	}
}

// rounds reports the rate of each turn, also as a multiple of the first.
func rounds(b *testing.B, handler message.NoPublishHandlerFunc, turns []candidate) {
	broker := rabbittest.NewestServer(b)
	cfg := queueConfig(broker)
	publisher := newTestPublisher(b, cfg)
	rates := make([][]float64, len(turns))
	for b.Loop() {
		for i, candidate := range turns {
			queue := broker.Queue(b, nil)
			fill(b, publisher, queue, candidate.messages)
			took := handleAll(b, candidate.subscriber(b, cfg), queue, candidate.messages, handler)
			rates[i] = append(rates[i], float64(candidate.messages)/took.Seconds())
		}
	}
	first := median(rates[0])
	for i, candidate := range turns {
		b.ReportMetric(median(rates[i]), candidate.name+"-msg/s")
		if i > 0 {
			b.ReportMetric(median(rates[i])/first, candidate.name+"-times-"+turns[0].name)
		}
	}
	b.ReportMetric(0, "ns/op") // a round takes as long as its slowest turn: no figure
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
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

// handleAll runs a Router until it has handled n messages, and says how long that took.
func handleAll(
	b *testing.B, s message.Subscriber, queue string, n int, handler message.NoPublishHandlerFunc,
) time.Duration {
	router, err := message.NewRouter(message.RouterConfig{}, nopLogger{})
	if err != nil {
		b.Fatal(err)
	}
	var inFlight atomic.Int64
	done := make(chan struct{})
	router.AddConsumerHandler("bench", queue, s, func(msg *message.Message) error {
		err := handler(msg)
		if inFlight.Add(1) == int64(n) {
			close(done)
		}
		return err
	})
	start := time.Now()
	over := make(chan error, 1)
	go func() { over <- router.Run(b.Context()) }()
	<-done
	took := time.Since(start)
	if err := router.Close(); err != nil {
		b.Fatal(err)
	}
	if err := <-over; err != nil {
		b.Fatal(err)
	}
	return took
}

// BenchmarkPublisher compares, in one run, the stock publisher that waits for each
// declareAll with this one, which awaits those of a call together.
//
//	go test -run '^$' -bench Publisher -benchtime 1x ./pipeline/transport
func BenchmarkPublisher(b *testing.B) {
	broker := rabbittest.NewestServer(b)
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
