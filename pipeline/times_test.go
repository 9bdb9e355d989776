package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

// stopwatch has the moments of messages as a test sees them, by message id.
type stopwatch struct {
	mu                        sync.Mutex
	published, started, ended map[string][]time.Time
}

func newStopwatch() *stopwatch {
	return &stopwatch{published: map[string][]time.Time{}, started: map[string][]time.Time{}, ended: map[string][]time.Time{}}
}

func (s *stopwatch) note(in map[string][]time.Time, id string) (times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in[id] = append(in[id], time.Now())
	return len(in[id])
}

// exactly is the greatest difference between a recorded time and that of the stopwatch.
const exactly = 10 * time.Millisecond

// compare returns how a recorded event differs from the stopwatch; "": not at all.
func (s *stopwatch) compare(e schemas.Event, delay time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, n := e.Envelope.Properties.MessageID, e.Attempt-1
	published, started, ended := s.published[id][0], s.started[id][n], s.ended[id][n]
	sent := published
	if n > 0 {
		sent = s.ended[id][n-1].Add(delay)
	}
	for _, c := range []struct {
		name      string
		got, want time.Duration
		known     bool
	}{
		{"in the queue", e.QueueTime, started.Sub(sent), true},
		{"the attempt", e.Duration, ended.Sub(started), true},
		{"until it was handled", e.TotalTime, ended.Sub(published), e.Action == schemas.Handled},
	} {
		if c.known && (c.got-c.want).Abs() > exactly || !c.known && c.got != 0 {
			return fmt.Sprintf("attempt %d of %s, %s: recorded %s, by the stopwatch %s", e.Attempt, id, c.name, c.got, c.want)
		}
	}
	return ""
}

// The recorded times of 1,000 messages, some of which are tried twice, are those of a stopwatch
// outside of Watership. In a bubble the processor takes no time, so that each difference is one of meaning.
func TestTimesEqualAStopwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker.New(broker.Config{})
		defer b.Close()
		conn, err := amqp.DialConfig("amqp://guest:guest@embedded/", amqp.Config{Dial: b.Dial, Heartbeat: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if err := ch.ExchangeDeclare("shop", "topic", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		const messages, delay = 1000, 200 * time.Millisecond
		watch, random, topology := newStopwatch(), rand.New(rand.NewPCG(39, 6)), schemas.Topology{}
		work := make([]time.Duration, messages)
		for i := range work {
			work[i] = time.Duration(random.Int64N(int64(20 * time.Millisecond)))
		}
		p, err := New(Config{
			Connection: rabbitmq.Connection{URL: "amqp://guest:guest@embedded/", Dial: b.Dial}, Topology: topology, Standalone: true, Default: attemptsAfter(delay), Logger: slog.New(slog.DiscardHandler),
			Routes: []Route{{Queue: "orders", Bind: []Binding{{Exchange: "shop", Key: "#"}}, Concurrency: 4, Handler: handler(func(msg *message.Message) error {
				e, _ := schemas.FromContext(msg.Context())
				id := e.Properties.MessageID
				attempt := watch.note(watch.started, id)
				var i int
				_, _ = fmt.Sscan(id, &i)
				time.Sleep(work[i])
				watch.note(watch.ended, id)
				if i%20 == 7 && attempt == 1 {
					return errors.New("not yet")
				}
				return nil
			})}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		<-p.Running()
		events, err := ch.Consume(topology.Log(), "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range messages {
			id := fmt.Sprint(i)
			watch.note(watch.published, id)
			if err := ch.PublishWithContext(ctx, "shop", "order", false, false, amqp.Publishing{MessageId: id, Headers: amqp.Table{"timestamp_in_ms": time.Now().UnixMilli()}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(random.Int64N(int64(5 * time.Millisecond))))
		}
		dec, handled, failed := wire.Decoder{Topology: topology}, 0, 0
		for handled < messages {
			e, err := dec.Lifecycle(<-events, time.Now(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if e.Action == schemas.Handled {
				handled++
			} else {
				failed++
			}
			if differs := watch.compare(e, delay); differs != "" {
				t.Error(differs)
			}
		}
		if failed != messages/20 {
			t.Errorf("%d attempts failed", failed)
		}
	})
}

// On a server, the clock runs on between the moments of the stopwatch and those of Watership, which are next to
// each other, so that a busy machine makes some of the differences longer.
func TestSoakTimesEqualAStopwatch(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("depends on the load of the machine: set WATERSHIP_TEST_SOAK=1")
	}
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		const messages = 1000
		watch, exchange, events := newStopwatch(), topicExchange(t, b), make(chan schemas.Event, messages)
		queue := rabbittest.Name(t) + ".orders"
		r := startSilent(t, b, func(cfg *Config) {
			cfg.Routes = []Route{{Queue: queue, Bind: []Binding{{Exchange: exchange, Key: "#"}}, Concurrency: 4, Handler: handler(func(msg *message.Message) error {
				e, _ := schemas.FromContext(msg.Context())
				watch.note(watch.started, e.Properties.MessageID)
				time.Sleep(5 * time.Millisecond)
				watch.note(watch.ended, e.Properties.MessageID)
				return nil
			})}}
		})
		r.follow(r.topology.Log(), func(d amqp.Delivery) {
			e, err := wire.Decoder{Topology: r.topology}.Lifecycle(d, time.Now(), 1)
			if err != nil {
				t.Error(err)
			}
			events <- e
		})
		for i := range messages {
			id := fmt.Sprint(i)
			watch.note(watch.published, id)
			r.publish(exchange, "order", amqp.Publishing{MessageId: id, Headers: amqp.Table{"timestamp_in_ms": time.Now().UnixMilli()}})
		}
		var differing []string
		for range messages {
			if differs := watch.compare(<-events, 0); differs != "" {
				differing = append(differing, differs)
			}
		}
		t.Logf("%d of %d messages differ by more than %s", len(differing), messages, exactly)
		if len(differing) > messages/100 {
			t.Errorf("of %d, such as %s", len(differing), differing[0])
		}
	})
}
