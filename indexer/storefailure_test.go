package indexer

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// fakeStore is a store in memory that refuses some documents.
type fakeStore struct {
	fakeRecords
	refuse func(schemas.Document) bool

	mu   sync.Mutex
	docs map[string]schemas.Document
}

func (p *fakeStore) Create(_ context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	results := make([]eventstore.Result, len(documents))
	for i, doc := range documents {
		switch _, known := p.docs[doc.ID]; {
		case p.refuse(doc):
			results[i] = eventstore.Result{Status: eventstore.Refused, Reason: "refused by the test"}
		case known:
			results[i] = eventstore.Result{Status: eventstore.Conflict, Index: "it"}
		default:
			p.docs[doc.ID] = doc
			results[i] = eventstore.Result{Status: eventstore.Created}
		}
	}
	return results, nil
}

func (p *fakeStore) Find(_ context.Context, ids []string) (map[string]eventstore.DocumentID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]eventstore.DocumentID{}
	for _, id := range ids {
		if _, known := p.docs[id]; known {
			found[id] = eventstore.DocumentID{Index: "it", ID: id}
		}
	}
	return found, nil
}

func (p *fakeStore) Sequences(context.Context, []eventstore.DocumentID) (map[eventstore.DocumentID]int64, error) {
	return nil, nil
}

func (p *fakeStore) HighestSequence(context.Context) (int64, error) { return 0, nil }

func (p *fakeStore) HighestSequenceOf(context.Context, string) (int64, error) { return 0, nil }

func (p *fakeStore) KnownJobs(context.Context, []string) (map[string]bool, error) { return nil, nil }

func (p *fakeStore) Handover(context.Context, string) ([]byte, error) { return nil, nil }

func (p *fakeStore) SaveHandover(context.Context, string, []byte) error { return nil }

func (p *fakeStore) quarantined() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, doc := range p.docs {
		if strings.Contains(string(doc.Source), `"quarantined_action":`) {
			n++
		}
	}
	return n
}

func newFakeStore(refuse func(schemas.Document) bool) *fakeStore {
	return &fakeStore{refuse: refuse, docs: map[string]schemas.Document{}}
}

func raw(doc schemas.Document) bool { return strings.Contains(string(doc.Source), `"quarantined"`) }

// A store that refuses every document has a fault of its own: a hundred documents are
// quarantined, by all requests together, then the indexer reports the error, pauses, and tries
// again.
func TestManyRefusalsPauseTheIndexer(t *testing.T) {
	t.Parallel()
	const messages = 300
	s := newSystem(t, rabbittest.Newest(t))
	var mended sync.Map
	store := newFakeStore(func(doc schemas.Document) bool { _, ok := mended.Load("yes"); return !ok && !raw(doc) })
	quarantined := make(chan int, 1) // when the first pause begins
	run := s.start(store, func(c *Config) {
		c.Batch.Events = 60 // several requests at once
		c.Logger = slog.New(onRecord{c.Logger.Handler(), func(message string) {
			if strings.Contains(message, "requeued the unacknowledged messages") {
				select {
				case quarantined <- store.quarantined():
				default:
				}
			}
		}})
	})
	s.publish(s.messages("order", messages)...)
	if n := rabbittest.Receive(t, quarantined); n > maxConsecutiveRefusals {
		t.Errorf("%d are quarantined before it pauses", n)
	}
	mended.Store("yes", true)
	rabbittest.Eventually(t, "all are in the store", func() bool {
		store.mu.Lock()
		defer store.mu.Unlock()
		return len(store.docs) == messages
	})
	run.stop()
	if left := s.Len(t, s.topology.Index()); left > 0 {
		t.Errorf("%d messages are left", left)
	}
}

// onRecord calls do with the message of each record before the handler gets it.
type onRecord struct {
	slog.Handler
	do func(message string)
}

func (h onRecord) Handle(ctx context.Context, r slog.Record) error {
	h.do(r.Message)
	return h.Handler.Handle(ctx, r)
}

// A document that the store refuses even raw is reported and retried, not dropped.
func TestARefusedEnvelopeIsNotDropped(t *testing.T) {
	t.Parallel()
	s := newSystem(t, rabbittest.Newest(t))
	store := newFakeStore(func(doc schemas.Document) bool { return strings.Contains(string(doc.Source), "evil-0") })
	run := s.start(store, nil)
	s.publish(s.message("evil", 0))
	rabbittest.Eventually(t, "it reports", func() bool { return s.log.Count("requeued the unacknowledged messages") > 1 })
	run.stop()
	rabbittest.Eventually(t, "it is in the queue again", func() bool { return s.Len(t, s.topology.Index()) == 1 })
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newSystem(t, rabbittest.Newest(t))
	registry := prometheus.NewPedanticRegistry()
	store := newFakeStore(func(doc schemas.Document) bool { return strings.Contains(string(doc.Source), "bad-0") && !raw(doc) })
	run := s.start(store, func(cfg *Config) { cfg.Registerer = registry })
	s.publish(append(s.messages("good", 20), s.message("bad", 0))...)
	foreign := poisoned(s.message("order", 1), s.topology, "event-1")
	foreign.Publishing.Headers["watership-fingerprint"] = "v1:another"
	s.send(foreign)
	rabbittest.Eventually(t, "all are in the store", func() bool {
		store.mu.Lock()
		defer store.mu.Unlock()
		return len(store.docs) == 22
	})
	run.stop()
	got := gather(t, registry)
	for name, want := range map[string]float64{
		"watership_index_events_total poisoned":        1,
		"watership_index_events_total published":       20,
		"watership_index_events_total quarantined":     1,
		"watership_index_fingerprint_mismatches_total": 1,
		"watership_index_resent_events_total":          1,
		"watership_index_in_flight_bytes":              0,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
	if latency := got["watership_index_latency_seconds "+s.topology.Index()]; latency <= 0 || latency > 60 {
		t.Errorf("latencies add up to %v seconds", latency)
	}
}

// gather returns counters, gauges and the sums of histograms by name and label value.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetHistogram().GetSampleSum()
		}
	}
	return values
}

// Messages are requeued before the acknowledgement time-out of RabbitMQ, even if the store
// makes slow progress.
func TestRetryBudgetEnds(t *testing.T) {
	x := New(Config{RequeueAfter: time.Minute})
	p := x.newRetryBudget()
	for range 100 {
		p.renew()
	}
	if p.deadline.After(p.finalDeadline) || time.Until(p.finalDeadline) > maxHoldFactor*time.Minute {
		t.Errorf("until %v", time.Until(p.deadline))
	}
	p.deadline = time.Now().Add(-time.Second)
	gone := &eventstore.Error{Kind: eventstore.Unavailable, Reason: "gone"}
	if err := p.waitAfterWrite(t.Context(), gone); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	later := &eventstore.Error{Kind: eventstore.Overloaded, RetryAfter: time.Hour, Reason: "later"}
	if err := x.newRetryBudget().waitAfterWrite(t.Context(), later); !errors.Is(err, later) {
		t.Errorf("it waits for longer than it may: %v", err)
	}
}

// StoreError reports a store that keeps failing, and the shutdown does not wait for it. It
// does not report a brief failure.
func TestStoreErrorOfAFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(Config{})
		p, full := x.newRetryBudget(), &eventstore.Error{Kind: eventstore.Unauthorized, Reason: "the disk is full"}
		for try := range briefTries + 1 {
			if err := x.StoreError(); err != nil || x.shutdownGrace() != maxShutdownGrace {
				t.Errorf("after %d tries: %v", try, err)
			}
			if err := p.waitAfterWrite(t.Context(), full); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.StoreError(); !errors.Is(err, full) || x.shutdownGrace() != 0 {
			t.Errorf("after the last try: %v", err)
		}
		p.renew()
		if err := x.StoreError(); err != nil || x.shutdownGrace() != maxShutdownGrace {
			t.Errorf("after a success: %v", err)
		}
	})
}

// StoreError reports a request that hangs until its time-out after the first try.
func TestStoreErrorOfAHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(Config{})
		p, away := x.newRetryBudget(), &eventstore.Error{Kind: eventstore.Unavailable, Reason: "no answer"}
		time.Sleep(time.Minute) // the try
		if err := p.waitAfterWrite(t.Context(), away); err != nil {
			t.Fatal(err)
		}
		if err := x.StoreError(); !errors.Is(err, away) {
			t.Errorf("after a minute without an answer: %v", err)
		}
		time.Sleep(time.Hour)
		if err := x.StoreError(); err != nil {
			t.Errorf("an hour after the last try: %v", err)
		}
	})
}

// A request that fails once, as before another indexer takes over the queue, is no failure that lasts.
func TestOneFailedRequestIsNoStoreError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(Config{})
		if err := x.newRetryBudget().waitAfterWrite(t.Context(), &eventstore.Error{Kind: eventstore.Overloaded, Reason: "busy"}); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			time.Sleep(briefOutage)
			if err := x.StoreError(); err != nil {
				t.Fatalf("without another request: %v", err)
			}
		}
	})
}

// A request interrupted by the end of the indexer is no failure of the store.
func TestAnInterruptedRequestIsNoStoreError(t *testing.T) {
	log := &rabbittest.Log{}
	x := New(Config{Logger: log.Logger()})
	ended, end := context.WithCancel(t.Context())
	end()
	interrupted := &eventstore.Error{Kind: eventstore.Unavailable, Reason: "context canceled"}
	for range briefTries + 1 {
		if err := x.newRetryBudget().waitAfterWrite(ended, interrupted); err == nil {
			t.Error("it is tried again")
		}
	}
	if n := log.Count("did not accept every document"); n > 0 || x.StoreError() != nil {
		t.Errorf("the failure is logged %d times, %v", n, x.StoreError())
	}
}

// failingStore fails reads or writes while the test sets an error.
type failingStore struct {
	*fakeStore
	reads, writes atomic.Pointer[eventstore.Error]
}

func (u *failingStore) HighestSequence(context.Context) (int64, error) {
	if err := u.reads.Load(); err != nil {
		return 0, err
	}
	return 0, nil
}

func (u *failingStore) Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	if err := u.writes.Load(); err != nil {
		return nil, err
	}
	return u.fakeStore.Create(ctx, documents)
}

// StoreError reports a failing store even if there are no messages.
func TestStoreErrorWithoutMessages(t *testing.T) {
	t.Parallel()
	s := newSystem(t, rabbittest.Newest(t))
	store := &failingStore{fakeStore: newFakeStore(func(schemas.Document) bool { return false })}
	store.reads.Store(&eventstore.Error{Kind: eventstore.Unavailable, Reason: "all shards failed"})
	run := s.start(store, nil)
	rabbittest.Eventually(t, "it is reported", func() bool {
		err := run.StoreError()
		return err != nil && strings.Contains(err.Error(), "all shards failed")
	})
	store.reads.Store(nil)
	rabbittest.Eventually(t, "it is over", func() bool { return run.StoreError() == nil })
}

// Requeuing and redelivering refused messages does not clear the error.
func TestStoreErrorLastsWhileMessagesAreRequeued(t *testing.T) {
	t.Parallel()
	s := newSystem(t, rabbittest.Newest(t))
	store := &failingStore{fakeStore: newFakeStore(func(schemas.Document) bool { return false })}
	store.writes.Store(&eventstore.Error{Kind: eventstore.Unauthorized, Reason: "the disk is full"})
	run := s.start(store, func(cfg *Config) { cfg.RequeueAfter = 200 * time.Millisecond })
	s.publish(s.message("order", 0))
	rabbittest.Eventually(t, "it is reported", func() bool { return run.StoreError() != nil })
	rabbittest.Eventually(t, "it is requeued several times", func() bool {
		if run.StoreError() == nil {
			t.Fatal("it is not reported while the message is requeued")
		}
		return s.log.Count("requeued the unacknowledged messages") > 3
	})
	store.writes.Store(nil)
	rabbittest.Eventually(t, "it is over", func() bool { return run.StoreError() == nil })
}

// hangingStore blocks writes until release is closed, and counts their bytes.
type hangingStore struct {
	*fakeStore
	release chan struct{}
	bytes   atomic.Int64
}

func (h *hangingStore) Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	for _, doc := range documents {
		h.bytes.Add(int64(len(doc.Source)))
	}
	<-h.release
	return h.fakeStore.Create(ctx, documents)
}

// While requests hang, the memory in flight stays below the limit, and the metric shows it.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	s := newSystem(t, rabbittest.Newest(t))
	registry := prometheus.NewRegistry()
	store := &hangingStore{fakeStore: newFakeStore(func(schemas.Document) bool { return false }), release: make(chan struct{})}
	const memory = 500_000
	run := s.start(store, func(cfg *Config) {
		cfg.Memory, cfg.Registerer = memory, registry
		cfg.Batch.Bytes = 64 << 10 // two messages: more than half of the limit
	})
	large := s.messages("large", 60)
	for n := range large {
		large[n].Body = []byte(strings.Repeat("x", 50_000))
	}
	s.publish(large...)
	rabbittest.Eventually(t, "some messages are being written", func() bool { return store.bytes.Load() > 0 })
	if received := 60 - s.Len(t, s.topology.Index()); received > memory/2/50_000 {
		t.Errorf("at the start %d messages are received, more than half of the limit", received)
	}
	bytes := store.bytes.Load()
	if bytes > memory/2 {
		t.Errorf("%d bytes are being written, at most %d may be", bytes, memory/2)
	}
	if metric := gather(t, registry)["watership_index_in_flight_bytes"]; metric < float64(bytes) {
		t.Errorf("the metric says %v of %d bytes", metric, bytes)
	}
	close(store.release)
	rabbittest.Eventually(t, "all are in the store", func() bool {
		store.mu.Lock()
		defer store.mu.Unlock()
		return len(store.docs) == 60
	})
	run.stop()
}
