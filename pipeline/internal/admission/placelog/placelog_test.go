package placelog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/pipeline/internal/admission/fairness"
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

func (g *testGate) Withdraw(fairness.Place) {}

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

// queues are the queues of a route: its own one, that with the places, and the lock.
type queues struct{ route, places, lock string }

// eachType runs a test on every broker with queues of each type.
func eachType(t *testing.T, test func(t *testing.T, b rabbittest.Broker, of queues)) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for _, kind := range []string{"classic", "quorum"} {
			t.Run(kind, func(t *testing.T) { test(t, b, newQueues(t, b, kind)) })
		}
	})
}

func newQueues(t *testing.T, b rabbittest.Broker, kind string) queues {
	return queues{b.Queue(t, amqp.Table{"x-queue-type": kind}), b.Queue(t, amqp.Table{"x-queue-type": kind}), rabbittest.Name(t)}
}

// process is a process of the route, whose connection by which it consumes is on.
type process struct {
	*Log
	url  string
	hold *Hold
	on   *amqp.Connection
	gate *testGate
	log  *rabbittest.Log

	refusing *refusing // publishes the places
}

// refusing is a publisher whose broker refuses messages at times, before or after it took them.
type refusing struct {
	publisher
	before, after atomic.Bool
}

func (p *refusing) PublishAll(ctx context.Context, messages []rabbit.Message) []error {
	errs := make([]error, len(messages))
	if !p.before.Load() {
		errs = p.publisher.PublishAll(ctx, messages)
	}
	for i := range errs {
		if p.before.Load() || p.after.Load() {
			errs[i] = errors.New("refused by the test")
		}
	}
	return errs
}

func newProcess(t *testing.T, url string, of queues) *process {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: url, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{StopTimeout: time.Millisecond})
	p := &process{url: url, gate: &testGate{}, log: &rabbittest.Log{}}
	p.refusing = &refusing{publisher: topology.NewSelfHealingPublisher(publisher, topology.Reconciler{Conn: conn})}
	p.Log = New(Config{
		Route: of.route, Queue: of.places, Lock: of.lock, Publisher: p.refusing,
		Gate: p.gate, Standby: prometheus.NewGauge(prometheus.GaugeOpts{Name: "standby"}), Logger: p.log.Logger(),
	})
	p.hold = p.NewHold()
	p.connect(t)
	t.Cleanup(func() {
		p.hold.Release()
		_ = publisher.Close()
		_ = conn.Close()
		_ = p.on.Close()
		p.Wait()
	})
	return p
}

func (p *process) connect(t *testing.T) {
	t.Helper()
	var err error
	if p.on, err = amqp.Dial(p.url); err != nil {
		t.Fatal(err)
	}
}

func (p *process) acquire(t *testing.T) (lost <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rabbittest.Timeout)
	defer cancel()
	lost, err := p.hold.Acquire(ctx, p.on)
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

// acquireLater acquires in a goroutine; acquired is closed once it has.
func (p *process) acquireLater(t *testing.T) (acquired <-chan struct{}) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); p.acquire(t) }()
	rabbittest.Eventually(t, "the next process waits", func() bool { return !p.Standby().IsZero() })
	return done
}

func (p *process) write(t *testing.T, places ...fairness.Place) {
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
	t.Parallel() // most of it is waiting
	eachType(t, func(t *testing.T, b rabbittest.Broker, of queues) {
		due := time.Now().Add(time.Hour).UTC().Round(0)
		first, next := newProcess(t, b.URL, of), newProcess(t, b.URL, of)
		first.acquire(t)
		first.write(t, place(1, time.Time{}), place(2, time.Time{}), place(3, due))
		first.write(t, place(1, time.Time{}), place(4, due))
		first.write(t, place(3, due.Add(time.Minute)))
		first.Remove(t.Context(), 2)
		first.Remove(t.Context(), 9) // unknown
		rabbittest.Eventually(t, "the process has its own places", func() bool { return b.Len(t, of.places) == 0 })
		for _, body := range []string{"", "{", `{"key":1}`, `{"position":-1}`, `[]`} {
			if err := b.Channel(t).PublishWithContext(t.Context(), "", of.places, false, false, amqp.Publishing{Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
		rabbittest.Eventually(t, "rubbish is reported", func() bool { return first.log.Count("cannot be read") == 5 })

		acquired := next.acquireLater(t)
		first.hold.Release()
		<-acquired
		if since := next.Standby(); !since.IsZero() {
			t.Errorf("a process that has the order stands by since %s", since)
		}
		got := slices.Clone(next.gate.places)
		slices.SortFunc(got, func(a, b fairness.Place) int { return int(a.Position - b.Position) })
		want := []fairness.Place{place(1, time.Time{}), place(3, due.Add(time.Minute)), place(4, due)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("places: -want +got\n%s", diff)
		}
		for _, p := range []int64{1, 3, 4} {
			next.Remove(t.Context(), p)
		}
		next.hold.Release()
		rabbittest.Eventually(t, "no places are left", func() bool { return b.Len(t, of.places) == 0 })
	})
}

// A place that the broker refused to take once more, or took without saying so, is removed with its
// message: the next process would wait for it.
func TestRefusedPlace(t *testing.T) {
	t.Parallel() // most of it is waiting
	eachType(t, func(t *testing.T, b rabbittest.Broker, of queues) {
		p, next := newProcess(t, b.URL, of), newProcess(t, b.URL, of)
		p.acquire(t)
		p.write(t, place(1, time.Time{}), place(2, time.Time{}))
		rabbittest.Eventually(t, "the process has its own places", func() bool { return b.Len(t, of.places) == 0 })
		for position, refuses := range map[int64]*atomic.Bool{1: &p.refusing.before, 2: &p.refusing.after, 3: &p.refusing.before} {
			refuses.Store(true)
			p.Reserve([]fairness.Place{place(position, time.Now().Add(time.Hour))})
			if err := p.Write(t.Context()); err == nil {
				t.Errorf("place %d is kept", position)
			}
			refuses.Store(false)
			p.Remove(t.Context(), position)
		}
		acquired := next.acquireLater(t)
		rabbittest.Eventually(t, "no place is left", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.entries) == 0
		})
		p.hold.Release()
		<-acquired
		if got := next.gate.positions(); len(got) > 0 {
			t.Errorf("the next process waits for the messages %v", got)
		}
	})
}

// A process whose connection is lost has the order no longer, and the next one has all places. The
// lost process reads them again once the next one has ended.
func TestLostConnection(t *testing.T) {
	t.Parallel() // most of it is waiting
	eachType(t, func(t *testing.T, b rabbittest.Broker, of queues) {
		proxy := b.Proxy(t)
		p, next := newProcess(t, proxy.URL, of), newProcess(t, b.URL, of)
		lost := p.acquire(t)
		p.write(t, place(1, time.Time{}), place(2, time.Time{}))
		rabbittest.Eventually(t, "the process has its own places", func() bool { return b.Len(t, of.places) == 0 })
		acquired := next.acquireLater(t)
		proxy.Cut()
		rabbittest.Ends(t, lost)
		<-acquired
		p.hold.Release()
		proxy.Mend()
		p.connect(t)
		again := p.acquireLater(t)
		if got := next.gate.positions(); !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("the next process has the places %v", got)
		}
		next.Remove(t.Context(), 1)
		next.hold.Release()
		<-again
		if got := p.gate.positions(); !slices.Equal(got, []int64{2}) {
			t.Errorf("the lost process has the places %v", got)
		}
	})
}

// A quorum queue gives a consumer without a limit 2,000 messages. The next process knows more
// places than that, and its order is not held up.
func TestManyPlaces(t *testing.T) {
	const many = 2100
	eachType(t, func(t *testing.T, b rabbittest.Broker, of queues) {
		ch := b.Channel(t)
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		var last *amqp.DeferredConfirmation
		for i := range many {
			body, err := json.Marshal(place(int64(i+1), time.Time{}))
			if err != nil {
				t.Fatal(err)
			}
			if last, err = ch.PublishWithDeferredConfirmWithContext(t.Context(), "", of.places, false, false, amqp.Publishing{Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		last.Wait()
		p := newProcess(t, b.URL, of)
		p.acquire(t)
		if got := len(p.gate.positions()); got != many {
			t.Errorf("%d places, want %d", got, many)
		}
	})
}

// The exclusive queue is gone although the connection is there, as after a cluster was parted.
func TestLostLock(t *testing.T) {
	t.Parallel() // most of it is waiting
	b := rabbittest.Newest(t)
	of := newQueues(t, b, "quorum")
	p, other := newProcess(t, b.URL, of), newProcess(t, b.URL, of)
	lost := p.acquire(t)
	if err := unlock(p.on, p.cfg.Lock); err != nil {
		t.Fatal(err)
	}
	acquired := make(chan struct{})
	go func() { defer close(acquired); other.acquire(t) }()
	rabbittest.Ends(t, lost)
	p.hold.Release()
	<-acquired
}

// A process of a former release consumes the places, exclusively, as far as the broker enforces that.
// The next process waits for its end.
func TestFormerRelease(t *testing.T) {
	eachType(t, func(t *testing.T, b rabbittest.Broker, of queues) {
		former := b.Channel(t)
		deliveries, err := former.Consume(of.places, "", false, true, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(place(1, time.Time{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := former.PublishWithContext(t.Context(), "", of.places, false, false, amqp.Publishing{Body: body}); err != nil {
			t.Fatal(err)
		}
		rabbittest.Receive(t, deliveries)
		p := newProcess(t, b.URL, of)
		acquired := make(chan struct{})
		go func() { defer close(acquired); p.acquire(t) }()
		rabbittest.Eventually(t, "the process waits", func() bool { return p.log.Count("waiting for the end of other consumers") > 0 })
		if err := former.Close(); err != nil {
			t.Fatal(err)
		}
		<-acquired
		if got := p.gate.positions(); !slices.Equal(got, []int64{1}) {
			t.Errorf("the places %v, want 1", got)
		}
	})
}

// The holds of a process do not exclude each other, and the last one ends its order.
func TestHoldsOfAProcess(t *testing.T) {
	b := rabbittest.Embedded(t)
	of := newQueues(t, b, "quorum")
	p, other := newProcess(t, b.URL, of), newProcess(t, b.URL, of)
	second := p.NewHold()
	second.Release() // of a hold that has never been acquired
	p.acquire(t)
	p.acquire(t)
	if _, err := second.Acquire(t.Context(), p.on); err != nil {
		t.Fatal(err)
	}
	p.hold.Release()
	p.hold.Release()
	ended, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := other.hold.Acquire(ended, other.on); err == nil {
		t.Error("two processes have the order")
	}
	second.Release()
	other.acquire(t)
}
