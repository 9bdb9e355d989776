package pipeline

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/gctuning"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/schemas"
)

const (
	benchMessages    = 20_000
	benchConcurrency = 256
)

// BenchmarkHandling measures messages of 1 KiB by a tapped exchange, all of which wait in the
// queue of a route when the pipeline starts. The rate is of messages, until the pipeline has
// stopped; own-µs is the CPU of this process for a message. Bare receives the same messages
// by the client library alone, publishes one of the size of a `handled` event for each, and
// acknowledges when that is confirmed. Ordered has the messages of a thousand keys in their order, of
// which each message has a place in a queue.
func BenchmarkHandling(b *testing.B) {
	ctx, stop := context.WithCancel(b.Context())
	var tuning sync.WaitGroup
	tuning.Go(func() { gctuning.Follow(ctx, gctuning.ServeLimit(64<<20)) }) // as `watership serve` does
	b.Cleanup(func() { stop(); tuning.Wait() })
	broker := rabbittest.NewestServer(b)
	post := webhook.New(webhook.Config{URL: startService(b)})
	for _, queues := range []QueueType{Classic, Quorum} {
		b.Run("queues="+string(queues), func(b *testing.B) {
			b.Run("bare", func(b *testing.B) { benchmarkBare(b, broker, queues) })
			none := func(*message.Message) ([]*message.Message, error) { return nil, nil }
			b.Run("plain", func(b *testing.B) { benchmark(b, broker, queues, Fairness{}, none) })
			b.Run("fair", func(b *testing.B) { benchmark(b, broker, queues, Fairness{Key: benchKey}, none) })
			b.Run("ordered", func(b *testing.B) { benchmark(b, broker, queues, Fairness{Key: benchKey, Ordered: true}, none) })
			b.Run("http", func(b *testing.B) { benchmark(b, broker, queues, Fairness{}, post) })
			b.Run("retried", func(b *testing.B) {
				benchmark(b, broker, queues, Fairness{}, handler(func(msg *message.Message) error { return onAttempt(msg, 1, errBroken) }))
			})
		})
	}
}

// benchKey gives a message one of a thousand keys.
func benchKey(e schemas.Envelope) string {
	n, _ := e.Headers["order"].(int32)
	return fmt.Sprint(n % 1000)
}

func benchmark(b *testing.B, broker rabbittest.Broker, queues QueueType, fairness Fairness, handle message.HandlerFunc) {
	for b.Loop() {
		var left atomic.Int64
		left.Store(benchMessages)
		done := make(chan struct{})
		queue, exchange := rabbittest.Name(b), topicExchange(b, broker)
		r := startSilent(b, broker, func(c *Config) {
			c.QueueType, c.Logger, c.Breaker.Messages = queues, slog.New(slog.DiscardHandler), -1
			c.Tap = []Tap{{Exchange: exchange, Type: "topic"}}
			c.Routes = []Route{{
				Queue: queue, Bind: []Binding{{exchange, "#"}}, Concurrency: benchConcurrency, Policy: attemptsAfter(10 * time.Millisecond), Fairness: fairness,
				Handler: func(msg *message.Message) ([]*message.Message, error) {
					produced, err := handle(msg)
					if err == nil && left.Add(-1) == 0 {
						close(done)
					}
					return produced, err
				},
			}}
		})
		b.StopTimer()
		if err := r.stop(); err != nil {
			b.Fatal(err)
		}
		fill(b, r, exchange, "order", queue)
		b.StartTimer()
		measure(b, func() {
			r.run()
			<-done
			if err := r.stop(); err != nil {
				b.Fatal(err)
			}
		})
		b.StopTimer()
		r.deleteTopology()
		b.StartTimer()
	}
}

// fill publishes messages, and waits until they are in the queue.
func fill(b *testing.B, r *rig, exchange, key, queue string) {
	body := make([]byte, 1<<10)
	for i := range benchMessages {
		r.publish(exchange, key, amqp.Publishing{
			MessageId: fmt.Sprint("order-", i), ContentType: "application/json", Body: body, DeliveryMode: amqp.Persistent,
			Headers: amqp.Table{"tenant": "acme", "order": int32(i)},
		})
	}
	rabbittest.Eventually(b, "all messages wait", func() bool { return r.broker.Len(b, queue) == benchMessages })
}

// measure reports the rate, and the CPU of this process.
func measure(b *testing.B, handleAll func()) {
	cpu, began := processCPU(b), time.Now()
	handleAll()
	took := time.Since(began)
	b.ReportMetric(float64((processCPU(b)-cpu).Microseconds())/benchMessages, "own-µs")
	b.ReportMetric(benchMessages/took.Seconds(), "messages/s")
	b.ReportMetric(0, "ns/op")
}

func processCPU(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func benchmarkBare(b *testing.B, broker rabbittest.Broker, queues QueueType) {
	for b.Loop() {
		b.StopTimer()
		arguments := amqp.Table{"x-queue-type": string(queues)}
		r := &rig{t: b, broker: broker, admin: broker.Channel(b)}
		from, log := broker.Queue(b, arguments), broker.Queue(b, arguments)
		fill(b, r, "", from, from)
		b.StartTimer()
		measure(b, func() { handleBare(b, broker, from, log) })
	}
}

// handleBare receives messages and publishes an event for each, on a connection of its own.
func handleBare(b *testing.B, broker rabbittest.Broker, from, log string) {
	consuming, publishing := broker.Channel(b), broker.Channel(b)
	if err := consuming.Qos(benchConcurrency, 0, false); err != nil {
		b.Fatal(err)
	}
	if err := publishing.Confirm(false); err != nil {
		b.Fatal(err)
	}
	deliveries, err := consuming.Consume(from, "", false, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	headers := amqp.Table{"fingerprint": strings.Repeat("f", 64), "queue": from, "state": strings.Repeat("s", 256)}
	confirms := publishing.NotifyPublish(make(chan amqp.Confirmation, benchConcurrency))
	for received, confirmed := 0, 0; confirmed < benchMessages; {
		select {
		case <-deliveries: // delivery tags and confirms both count from 1
			received++
			if err := publishing.Publish("", log, false, false, amqp.Publishing{Headers: headers, DeliveryMode: amqp.Persistent}); err != nil {
				b.Fatal(err)
			}
		case c := <-confirms:
			confirmed++
			if err := consuming.Ack(c.DeliveryTag, false); err != nil || !c.Ack {
				b.Fatal(err, c)
			}
		}
	}
}

const serving = "WATERSHIP_TEST_SERVING"

// startService starts a service that answers at once, in a process of its own, and returns
// its URL.
func startService(b *testing.B) string {
	service := exec.CommandContext(b.Context(), os.Args[0], "-test.run", "^TestServe$")
	service.Env = append(os.Environ(), serving+"=1")
	out, err := service.StdoutPipe()
	if err == nil {
		err = service.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = service.Process.Kill()
		_ = service.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// TestServe is the process of startService.
func TestServe(t *testing.T) {
	if os.Getenv(serving) == "" {
		t.Skip("a part of BenchmarkHandling")
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	fmt.Println(service.URL)
	select {}
}
