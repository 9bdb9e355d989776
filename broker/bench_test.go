package broker_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// BenchmarkPublishConsume sends messages of 1 KiB with a window of 1,000 confirms
// to a queue that a consumer with a prefetch of 200 empties, side by side on the
// embedded broker and on every RabbitMQ of WATERSHIP_TEST_AMQP_URLS.
func BenchmarkPublishConsume(b *testing.B) {
	embedded := start(b, broker.Config{})
	addr, err := embedded.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range []string{"classic", "quorum"} {
		b.Run(kind+"/embedded in process", func(b *testing.B) {
			roundTrip(b, kind, func() (*amqp.Connection, error) { return dial(embedded, amqp.Config{}) })
		})
		b.Run(kind+"/embedded over TCP", func(b *testing.B) {
			roundTrip(b, kind, func() (*amqp.Connection, error) { return amqp.Dial("amqp://guest:guest@" + addr.String() + "/") })
		})
		for i, url := range strings.Fields(os.Getenv("WATERSHIP_TEST_AMQP_URLS")) {
			b.Run(fmt.Sprintf("%s/RabbitMQ %d", kind, i+1), func(b *testing.B) {
				roundTrip(b, kind, func() (*amqp.Connection, error) { return amqp.Dial(url) })
			})
		}
	}
}

const (
	benchWindow   = 1000 // confirms outstanding
	benchPrefetch = 200
)

func roundTrip(b *testing.B, kind string, connect func() (*amqp.Connection, error)) {
	publisher, consumer := benchChannel(b, connect), benchChannel(b, connect)
	queue := "bench." + strings.ReplaceAll(b.Name(), " ", ".")
	declare(b, consumer, queue, amqp.Table{"x-queue-type": kind})
	defer consumer.QueueDelete(queue, false, false, false)
	if err := consumer.Qos(benchPrefetch, 0, false); err != nil {
		b.Fatal(err)
	}
	deliveries, err := consumer.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := publisher.Confirm(false); err != nil {
		b.Fatal(err)
	}
	drained := make(chan struct{})
	b.ResetTimer()
	go func() {
		defer close(drained)
		drain(deliveries, b.N)
	}()
	fill(b, publisher, queue, b.N)
	<-drained
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func benchChannel(b *testing.B, connect func() (*amqp.Connection, error)) *amqp.Channel {
	conn, err := connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return channel(b, conn)
}

// drain acknowledges half a prefetch at a time.
func drain(deliveries <-chan amqp.Delivery, n int) {
	for i := 1; i <= n; i++ {
		d := <-deliveries
		if i%(benchPrefetch/2) == 0 || i == n {
			_ = d.Ack(true)
		}
	}
}

func fill(b *testing.B, ch *amqp.Channel, queue string, n int) {
	m := amqp.Publishing{Body: make([]byte, 1024), DeliveryMode: amqp.Persistent, Headers: amqp.Table{"tenant": "a", "n": int32(1)}}
	window := make(chan *amqp.DeferredConfirmation, benchWindow)
	confirmed := make(chan error, 1)
	go func() { confirmed <- awaitAll(window) }()
	for range n {
		pending, err := ch.PublishWithDeferredConfirm("", queue, false, false, m)
		if err != nil {
			b.Fatal(err)
		}
		window <- pending
	}
	close(window)
	if err := <-confirmed; err != nil {
		b.Fatal(err)
	}
}

func awaitAll(window <-chan *amqp.DeferredConfirmation) error {
	for pending := range window {
		if ok, err := pending.WaitContext(context.Background()); err != nil || !ok {
			return fmt.Errorf("not confirmed: %v %v", ok, err)
		}
	}
	return nil
}
