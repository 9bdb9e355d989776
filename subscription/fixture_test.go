package subscription_test

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

func TestMain(m *testing.M) {
	transform.ServeProcess(signal.Ignore)
	os.Exit(rabbittest.WithExamples(m))
}

// rig is a store with a broker that has Watership's topology.
type rig struct {
	store  *sqlite.Store
	broker rabbittest.Broker
	cfg    subscription.Config
	log    *rabbittest.Log
}

func newRig(t *testing.T, b rabbittest.Broker) *rig {
	t.Helper()
	r := &rig{store: newStore(t), broker: b.VHost(t), log: &rabbittest.Log{}}
	conn, err := rabbit.Open(rabbit.Config{URL: r.broker.URL, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := topology.Declare(t.Context(), conn, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	r.cfg = subscription.Config{
		Store: r.store, Source: source, Connection: rabbitmq.Connection{URL: r.broker.URL}, Topology: schemas.Topology{}, Interval: 5 * time.Millisecond, Logger: r.log.Logger(),
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.log)
		}
	})
	return r
}

// create creates a subscription from the start.
func (r *rig) create(t *testing.T, s *subscription.Subscriptions, sub subscription.Subscription) subscription.Subscription {
	t.Helper()
	created, err := s.Create(t.Context(), sub, subscription.From{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// serve runs all subscriptions to queues until stop is called, or the test ends.
func (r *rig) serve(t *testing.T, s *subscription.Subscriptions) (stop func()) {
	return background(t, func(ctx context.Context) error { return s.Serve(ctx) })
}

// run runs a subscription with a handler.
func (r *rig) run(t *testing.T, s *subscription.Subscriptions, name string, handle func(context.Context, subscription.Delivery) error) (stop func()) {
	return background(t, func(ctx context.Context) error { return s.Run(ctx, name, handle) })
}

func background(t *testing.T, do func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		if err := do(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); work.Wait() })
	t.Cleanup(stop)
	return stop
}

// get returns a subscription that exists.
func get(t *testing.T, s *subscription.Subscriptions, name string) subscription.Subscription {
	t.Helper()
	sub, err := s.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// positions collects the sequences of deliveries.
type positions struct {
	mu  sync.Mutex
	got []int64
}

func (p *positions) add(sequence int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, sequence)
}

func (p *positions) list() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int64(nil), p.got...)
}

// numbers returns the integers from first to last.
func numbers(first, last int64) (list []int64) {
	for n := first; n <= last; n++ {
		list = append(list, n)
	}
	return list
}

func positionOf(t *testing.T, d amqp.Delivery) int64 {
	t.Helper()
	text, _ := d.Headers[subscription.PositionHeader].(string)
	position, err := subscription.ParsePosition(text)
	if err != nil {
		t.Fatalf("delivery with headers %v: %v", d.Headers, err)
	}
	return position.Sequence
}
