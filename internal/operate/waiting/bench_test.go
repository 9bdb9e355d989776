package waiting

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wire"
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
func fillDelayQueue(t *testing.T, b rabbittest.Broker, cfg topology.Config, n int) []WaitingMessage {
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
	messages, pending := make([]WaitingMessage, n), make([]*rabbit.Pending, n)
	for i := range n {
		e := schemas.Envelope{RoutingKey: "orders", Body: make([]byte, 1024), Properties: schemas.Properties{MessageID: fmt.Sprint(i)}}
		state := schemas.State{
			Fingerprint: e.Fingerprint(), Message: fmt.Sprintf("instance-%d", i), Queue: "orders", Attempt: 1, Time: time.Now(), Delay: cfg.Delays[0],
			Failure: schemas.Failure{Message: "broken"}, Route: true,
		}
		messages[i] = newMessage(schemas.Event{State: state, Action: schemas.RetryScheduled, Envelope: e})
		pending[i], err = publisher.Send(t.Context(), rabbit.Message{Exchange: cfg.Direct(), RoutingKey: wire.DelaysOf(cfg.Topology).Queue(cfg.Delays[0]), Publishing: wire.DefaultFrameMax.Wrap(e, state)})
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

// The time and the memory in which 100,000 waiting messages are listed, by themselves and in
// groups: watership waiting --each and watership waiting, and the pages of the console and the
// API. Both read the store alone, so that the broker and the types of its queues do not matter.
func TestSoakListMany(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set: this test takes minutes")
	}
	const n = 100_000
	const most, memory = 20 * time.Second, 100 << 20
	eachStore(t, func(t *testing.T, store filledStore) {
		now := time.Now()
		fillStore(t, store, n, now)
		for name, list := range map[string]func() (int, error){
			"groups": func() (count int, err error) {
				groups, err := Groups(t.Context(), store, nil, kql.All{}, now)
				for _, g := range groups {
					count += g.Count
				}
				return count, err
			},
			"messages": func() (int, error) {
				messages, _, err := Select(t.Context(), store, nil, kql.All{}, nil, now)
				return len(messages), err
			},
		} {
			began, peak := time.Now(), peakOfHeap(t.Context())
			found, err := list()
			took, held := time.Since(began), peak()
			if err != nil || found != n {
				t.Fatalf("%s: %d of %d: %v", name, found, n, err)
			}
			t.Logf("%s of %d: %s, %d MiB at most", name, n, took.Round(10*time.Millisecond), held>>20)
			if took > most || held > memory {
				t.Errorf("%s take %s and %d MiB, want at most %s and %d MiB", name, took, held>>20, most, memory>>20)
			}
		}
	})
}

// filledStore is a store that a test fills.
type filledStore interface {
	Store
	Install(ctx context.Context) error
	Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error)
	Refresh(ctx context.Context) error
}

func eachStore(t *testing.T, test func(t *testing.T, store filledStore)) {
	t.Run("embedded", func(t *testing.T) {
		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		test(t, store)
	})
	t.Run("elasticsearch", func(t *testing.T) {
		url := os.Getenv("WATERSHIP_TEST_STORE_URL")
		if url == "" {
			t.Skip("WATERSHIP_TEST_STORE_URL is not set")
		}
		store, err := elastic.Open(elastic.Config{URLs: []string{url}, Stream: fmt.Sprint("test-waiting-", time.Now().UnixNano())})
		if err != nil {
			t.Fatal(err)
		}
		test(t, store)
	})
}

// fillStore stores the events of n messages that wait, in 100 groups.
func fillStore(t *testing.T, store filledStore, n int, now time.Time) {
	t.Helper()
	if err := store.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	var documents []schemas.Document
	for i := range n {
		e := schemas.Envelope{
			Exchange: "shop", RoutingKey: "order.placed", Body: []byte(`{"order": 1}`),
			Properties: schemas.Properties{MessageID: fmt.Sprint("order-", i), ContentType: "application/json"},
		}
		documents = append(documents, schemas.DocumentFormat{}.Document(schemas.Event{
			Action: schemas.RetryScheduled, Sequence: int64(i + 1), Source: "shop", Envelope: e,
			State: schemas.State{
				EventID: fmt.Sprint("wait-", i), Fingerprint: e.Fingerprint(), Message: fmt.Sprintf("instance-%d", i), Queue: fmt.Sprint("orders-", i%10),
				Attempt: 1, Time: now, FirstFailed: now, Delay: 10 * time.Hour, Route: true,
				Failure: schemas.Failure{Message: "connecting to the database: connection refused", Type: "timeout", Class: fmt.Sprint("class-", i/10%10)},
			},
		}))
		if len(documents) == 1000 {
			if _, err := store.Create(t.Context(), documents); err != nil {
				t.Fatal(err)
			}
			documents = documents[:0]
		}
	}
	if err := store.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// peakOfHeap begins to watch the heap. The function that it returns ends that, and tells by how
// much the live heap grew at most.
func peakOfHeap(ctx context.Context) func() uint64 {
	heap := func() uint64 {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return now.HeapAlloc
	}
	ctx, stop := context.WithCancel(ctx)
	before, most := heap(), make(chan uint64)
	go func() {
		peak := before
		for ticks := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				most <- max(peak, heap())
				return
			case <-ticks.C:
				peak = max(peak, heap())
			}
		}
	}()
	return func() uint64 {
		stop()
		return <-most - before
	}
}
