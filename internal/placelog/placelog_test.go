package placelog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/fairness"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
)

// testGate keeps the places that it is told.
type testGate struct {
	mu     sync.Mutex // guards places
	places []fairness.Place
}

func (g *testGate) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places = nil
}

func (g *testGate) Remember(p fairness.Place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places = append(g.places, p)
}

func (g *testGate) positions() (all []int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.places {
		all = append(all, p.Position)
	}
	return all
}

type process struct {
	*Log
	hold *Hold
	gate *testGate
	log  *rabbittest.Log
}

func newProcess(t *testing.T, url, queue string) process {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: url, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{StopTimeout: time.Millisecond})
	p := process{gate: &testGate{}, log: &rabbittest.Log{}}
	p.Log = New(Config{
		Queue: queue, Connection: conn, Publisher: topology.NewSelfHealingPublisher(publisher, topology.Reconciler{Conn: conn}),
		Gate: p.gate, Logger: p.log.Logger(),
	})
	p.hold = p.NewHold()
	t.Cleanup(func() {
		p.hold.Release()
		_ = publisher.Close()
		_ = conn.Close()
	})
	return p
}

func (p process) acquire(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rabbittest.Timeout)
	defer cancel()
	if err := p.hold.Acquire(ctx); err != nil {
		t.Fatal(err)
	}
}

func (p process) write(t *testing.T, places ...fairness.Place) {
	t.Helper()
	p.Reserve(places)
	if err := p.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func place(position int64, due time.Time) fairness.Place {
	return fairness.Place{Key: "k", ID: fmt.Sprint("m", position), Position: position, Due: due}
}

// A process ends, and the next one knows the places that were not removed, as they were last,
// and in their order. Messages that are no places are dropped.
func TestNextProcess(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue, due := b.Queue(t, nil), time.Now().Add(time.Hour).UTC().Round(0)
		first, next := newProcess(t, b.URL, queue), newProcess(t, b.URL, queue)
		first.acquire(t)
		first.write(t, place(1, time.Time{}), place(2, time.Time{}), place(3, due))
		first.write(t, place(1, time.Time{}), place(4, due))
		first.write(t, place(3, due.Add(time.Minute)))
		first.Remove(2)
		first.Remove(9) // unknown
		rabbittest.Eventually(t, "the process has its own places", func() bool { return b.Len(t, queue) == 0 })
		for _, body := range []string{"", "{", `{"key":1}`, `{"position":-1}`, `[]`} {
			if err := b.Channel(t).PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
		rabbittest.Eventually(t, "rubbish is reported", func() bool { return first.log.Count("cannot be read") == 5 })

		acquired := make(chan struct{})
		go func() { defer close(acquired); next.acquire(t) }()
		rabbittest.Eventually(t, "the next process waits", func() bool { return next.log.Count("waiting for its end") == 1 })
		first.hold.Release()
		<-acquired
		got := slices.Clone(next.gate.places)
		slices.SortFunc(got, func(a, b fairness.Place) int { return int(a.Position - b.Position) })
		want := []fairness.Place{place(1, time.Time{}), place(3, due.Add(time.Minute)), place(4, due)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("places: -want +got\n%s", diff)
		}
		for _, p := range []int64{1, 3, 4} {
			next.Remove(p)
		}
		next.hold.Release()
		if n := b.Len(t, queue); n != 0 {
			t.Errorf("%d places are left", n)
		}
	})
}

// A process that is cut off knows after its return what is in the queue, and its removals in
// between are made up for.
func TestLostConnection(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue, proxy := b.Queue(t, nil), b.Proxy(t)
		p := newProcess(t, proxy.URL, queue)
		p.acquire(t)
		p.write(t, place(1, time.Time{}), place(2, time.Time{}))
		rabbittest.Eventually(t, "the process has its own places", func() bool { return b.Len(t, queue) == 0 })
		proxy.Cut()
		rabbittest.Eventually(t, "the places are back", func() bool { return b.Len(t, queue) == 2 })
		p.Remove(1)
		p.Reserve([]fairness.Place{place(3, time.Time{})})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Write(ended); err == nil {
			t.Error("places were written without a connection")
		}
		proxy.Mend()
		p.write(t, place(4, time.Time{}))
		rabbittest.Eventually(t, "the process has all places", func() bool { return b.Len(t, queue) == 0 })
		p.hold.Release()

		next := newProcess(t, b.URL, queue)
		next.acquire(t)
		got := slices.Compact(slices.Sorted(slices.Values(next.gate.positions())))
		if want := []int64{2, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("the places %v, want %v", got, want)
		}
	})
}

// The holds of a process do not exclude each other, and the last one ends its order.
func TestHoldsOfAProcess(t *testing.T) {
	b := rabbittest.Embedded(t)
	queue := b.Queue(t, nil)
	p, other := newProcess(t, b.URL, queue), newProcess(t, b.URL, queue)
	second := p.NewHold()
	second.Release() // of a hold that has never been acquired
	p.acquire(t)
	p.acquire(t)
	if err := second.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.hold.Release()
	p.hold.Release()
	ended, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := other.hold.Acquire(ended); err == nil {
		t.Error("two processes have the order")
	}
	second.Release()
	other.acquire(t)
}
