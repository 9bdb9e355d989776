package waiting

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

// The time in which an operator decides about messages of a delay queue that has 100,000, and
// in which these are listed.
func TestSoakDecideAmongMany(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set: this test takes minutes")
	}
	const n, delay = 100_000, 10 * time.Hour
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		for _, kind := range []topology.QueueType{topology.Quorum, topology.Classic} {
			t.Run(string(kind), func(t *testing.T) {
				b, names := b.VHost(t), schemas.Topology{Prefix: "w"}
				messages := fillDelayQueue(t, b, topology.Config{Topology: names, QueueType: kind, Delays: []time.Duration{delay}}, n)
				store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
				if err == nil {
					err = store.Install(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				control := Control{Topology: names, Broker: rabbit.Config{URL: b.URL, Name: "waiting", Logger: slog.New(slog.DiscardHandler)}, Records: store}
				rand.Shuffle(n, func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
				left := n
				for _, some := range []int{1, 100, 10_000, n - 10_101} {
					chosen := messages[:some]
					messages = messages[some:]
					began := time.Now()
					result, err := control.Decide(t.Context(), Decision{Action: Now, Operator: "soak", Reason: "soak"}, chosen)
					if err != nil || len(result.Taken) != some {
						t.Fatalf("%d of %d were taken: %v", len(result.Taken), some, err)
					}
					t.Logf("%d of %d: %s", some, left, time.Since(began).Round(10*time.Millisecond))
					left -= some
				}
				ch := b.Channel(t)
				began, due := time.Now(), 0
				for due < n && time.Since(began) < 5*time.Minute {
					time.Sleep(100 * time.Millisecond)
					queue, err := ch.QueueDeclarePassive(names.Due(), true, false, false, false, nil)
					if err != nil {
						t.Fatal(err)
					}
					due = queue.Messages
				}
				t.Logf("%d were dead-lettered after another %s", due, time.Since(began).Round(10*time.Millisecond))
				if due != n {
					t.Errorf("%d messages are due, want %d", due, n)
				}
			})
		}
	})
}

// fillDelayQueue publishes messages as a route does after their first failure.
func fillDelayQueue(t *testing.T, b rabbittest.Broker, cfg topology.Config, n int) []Message {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: b.URL, Name: "filling", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := topology.Declare(t.Context(), conn, cfg); err != nil {
		t.Fatal(err)
	}
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer publisher.Close()
	messages, pending := make([]Message, n), make([]*rabbit.Pending, n)
	for i := range n {
		e := schemas.Envelope{RoutingKey: "orders", Body: make([]byte, 1024), Properties: schemas.Properties{MessageID: fmt.Sprint(i)}}
		state := schemas.State{
			Fingerprint: e.Fingerprint(), Message: fmt.Sprintf("instance-%d", i), Queue: "orders", Attempt: 1, Time: time.Now(), Delay: cfg.Delays[0],
			Failure: schemas.Failure{Message: "broken"}, Route: true,
		}
		messages[i] = newMessage(schemas.Event{State: state, Action: schemas.RetryScheduled, Envelope: e})
		pending[i], err = publisher.Send(t.Context(), rabbit.Message{Exchange: cfg.Direct(), RoutingKey: cfg.Delay(cfg.Delays[0]), Publishing: schemas.DefaultFrameMax.Wrap(e, state)})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pending {
		if err := p.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return messages
}
