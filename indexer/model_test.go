package indexer

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// TestReadersSkipNothing runs indexers of two or three processes, in memory and by a
// simulated clock, while these are killed, stopped and cut off from the broker or the store
// at random, and bulk requests of the killed ones are written late. Readers read every
// event once and in order, and no event becomes visible where a reader has been.
func TestReadersSkipNothing(t *testing.T) {
	t.Parallel()
	rounds := 2
	if os.Getenv("WATERSHIP_TEST_SOAK") != "" {
		rounds = 20
	}
	if n, err := strconv.Atoi(os.Getenv("WATERSHIP_TEST_ROUNDS")); err == nil {
		rounds = n
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newModel(t).run() })
		})
	}
}

// model is an installation in memory.
type model struct {
	t         *testing.T
	topology  schemas.Topology
	broker    *modelBroker
	store     *modelStore
	processes [3]*modelProcess // nil: does not run
	published map[string]bool  // message ids
	readers   []*modelReader
	faults    map[string]int

	answer func(queue string) queueCounts // of the broker about a queue
}

type modelProcess struct {
	connection *modelConnection
	client     *modelClient
	stop       func() // waits for its end
}

func newModel(t *testing.T) *model {
	m := &model{
		t: t, topology: schemas.Topology{Prefix: "model"}, store: newModelStore(t),
		broker: &modelBroker{queues: map[string]*modelQueue{}}, published: map[string]bool{}, faults: map[string]int{},
	}
	for _, queue := range m.topology.Indexed() {
		m.broker.queues[queue] = &modelQueue{}
	}
	m.answer = m.broker.inspect
	return m
}

func (m *model) run() {
	const turns = 60
	m.read()
	for range turns {
		m.publish(rand.IntN(200))
		m.change()
		m.publish(rand.IntN(200))
		time.Sleep(modelLatency(20 * time.Second))
	}
	m.finish()
}

// publish publishes messages to the index queues, slowly or at once.
func (m *model) publish(n int) {
	between := rand.N(20 * time.Millisecond)
	for range n {
		queue := m.topology.Index()
		if rand.IntN(5) == 0 {
			queue = m.topology.IndexLate()
		}
		id := fmt.Sprintf("m-%d", len(m.published))
		m.published[id] = true
		m.broker.publish(queue, amqp.Delivery{Exchange: "shop", RoutingKey: "order", MessageId: id, Body: []byte(id)})
		time.Sleep(between)
	}
}

// change starts, stops, kills or disturbs a process.
func (m *model) change() {
	n := rand.IntN(len(m.processes))
	p := m.processes[n]
	if p == nil {
		m.start(n)
		return
	}
	fault := []string{"stopped", "killed", "killed", "disconnected", "cut off", "without the store", "alone"}[rand.IntN(7)]
	m.faults[fault]++
	switch fault {
	case "stopped":
		m.processes[n] = nil
		p.stop()
	case "killed":
		m.processes[n] = nil
		m.kill(p)
	case "disconnected":
		p.connection.cut(0, false)
	case "cut off": // and does not know it
		p.connection.cut(rand.N(8*time.Second), false)
	case "without the store":
		p.client.setAway(true)
		time.AfterFunc(modelLatency(90*time.Second), func() { p.client.setAway(false) })
	case "alone":
		away := rand.N(30 * time.Second)
		p.connection.cut(away+rand.N(5*time.Second), false)
		p.client.setAway(true)
		time.AfterFunc(away, func() { p.client.setAway(false) })
	}
}

func (m *model) start(n int) {
	ahead := [len(m.processes)]time.Duration{-5 * time.Hour, 0, 3 * time.Hour}[n]
	p := &modelProcess{connection: &modelConnection{broker: m.broker}, client: &modelClient{modelStore: m.store}}
	cfg := Config{
		Store: p.client, Broker: p.connection, Batch: Batch{Events: 100, Wait: 20 * time.Millisecond},
		Source: "model", VHost: "/", Topology: m.topology,
		RequeueAfter: time.Second + rand.N(time.Minute),
		Now:          func() time.Time { return time.Now().Add(ahead) },
	}
	if os.Getenv("WATERSHIP_TEST_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("process", n)
	}
	x := New(cfg)
	x.watermarks.inspect = func(_ context.Context, queue string) (queueCounts, error) { return m.answer(queue), nil }
	ctx, cancel := context.WithCancel(m.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := x.Run(ctx); err != nil {
			m.t.Error(err)
		}
	})
	p.stop = func() { cancel(); running.Wait() }
	m.processes[n] = p
}

// kill ends a process: from now on it sends nothing to the broker or the store.
func (m *model) kill(p *modelProcess) {
	p.client.setAway(true)
	p.connection.cut(0, true)
	go p.stop()
}

// finish lets one process index what is left, and wants every event to be read.
func (m *model) finish() {
	for n, p := range m.processes {
		if p != nil {
			p.client.setAway(false)
			m.processes[n] = nil
			p.stop()
		}
	}
	m.start(1)
	for deadline := time.Now().Add(10 * time.Minute); !m.broker.empty(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			m.t.Fatal("messages are left in the queues")
		}
	}
	want := m.store.sorted(eventstore.Cursor{}, eventstore.MaxSequence)
	for _, r := range m.readers {
		r.wait(m.t, want)
	}
	stored := map[string]bool{}
	for _, e := range want {
		stored[e.Envelope.Properties.MessageID] = true
	}
	if len(stored) != len(m.published) {
		m.t.Errorf("%d messages are stored, %d were published", len(stored), len(m.published))
	}
	m.processes[1].stop()
	for _, r := range m.readers {
		r.stop()
	}
	time.Sleep(time.Hour) // for goroutines of killed processes
	m.t.Logf("%d messages, %d events, faults: %v", len(m.published), len(want), m.faults)
}

// modelReader is a reader of all events.
type modelReader struct {
	mu     sync.Mutex // guards events
	events []schemas.Event
	stop   func()
}

func (m *model) read() {
	for range 2 {
		r := &modelReader{}
		ctx, cancel := context.WithCancel(m.t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.run(ctx, m.store) })
		r.stop = func() { cancel(); running.Wait() }
		m.readers = append(m.readers, r)
	}
}

func (r *modelReader) run(ctx context.Context, store *modelStore) {
	reader := subscription.Reader{Store: &modelClient{modelStore: store}, Source: "model", Interval: 100 * time.Millisecond}
	var after eventstore.Cursor
	for ctx.Err() == nil {
		for item, err := range reader.Items(ctx, after) {
			if err != nil {
				break
			}
			store.pass(item.Position.Sequence - 1)
			if after = item.Position; !item.CaughtUp {
				r.mu.Lock()
				r.events = append(r.events, item.Event)
				r.mu.Unlock()
			}
		}
		_ = pause(ctx, 1, 0)
	}
}

// wait waits until the reader has as many events as wanted, and compares them.
func (r *modelReader) wait(t *testing.T, want []schemas.Event) {
	t.Helper()
	read := func() []schemas.Event {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Clone(r.events)
	}
	for deadline := time.Now().Add(3 * time.Minute); len(read()) < len(want) && time.Now().Before(deadline); {
		time.Sleep(time.Second)
	}
	same := func(a, b schemas.Event) bool { return a.Sequence == b.Sequence && a.EventID == b.EventID }
	if got := read(); !slices.EqualFunc(got, want, same) {
		t.Errorf("a reader read %d events; they are not the %d stored ones in order", len(got), len(want))
	}
}

// The entry of a process that was killed is released once the queue is empty, and no sooner
// than RabbitMQ has returned what the process had.
func TestReleaseOfAbandonedEntries(t *testing.T) {
	for name, c := range map[string]struct {
		counts   queueCounts
		released bool
		after    time.Duration
	}{
		"empty":           {queueCounts{consumers: 1}, true, expiredAfter},
		"no queue":        {queueCounts{missing: true}, true, abandonedAfter},
		"messages":        {queueCounts{messages: 1, consumers: 1}, false, time.Hour},
		"a silent leader": {queueCounts{}, false, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t)
				entry := func() eventstore.Watermark {
					w, _, err := eventstore.ReadWatermarks(t.Context(), &m.store.records, "model")
					if err != nil {
						t.Fatal(err)
					}
					return w.Queues[m.topology.Index()]
				}
				document, err := json.Marshal(eventstore.Watermarks{Source: "model", Queues: map[string]eventstore.Watermark{m.topology.Index(): {Session: "killed", Sequence: 1}}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := m.store.records.CreateRecord(t.Context(), eventstore.WatermarkRecord, "model", document); err != nil {
					t.Fatal(err)
				}
				m.answer = func(string) queueCounts { return c.counts }
				m.start(1)
				began := time.Now()
				for entry().Session != "" && time.Since(began) < 2*c.after {
					time.Sleep(time.Second)
				}
				if released := entry().Session == ""; released != c.released || released && time.Since(began) < c.after {
					t.Errorf("released=%t after %s", released, time.Since(began))
				}
				m.processes[1].stop()
				time.Sleep(time.Hour) // for goroutines of the process
			})
		})
	}
}

// A lost message gets a free sequence below the next stored one, if no reader has been
// there: its entry was released after some time without a save.
func TestRestoredSequencesAreAboveTheWatermark(t *testing.T) {
	for name, test := range map[string]struct {
		released  bool
		readDelay time.Duration
	}{
		"the former entry is there": {},
		"a slow store":              {readDelay: 2 * formerSessionWait},
		"it was released":           {released: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRestoredSequences(t, test.released, test.readDelay) })
		})
	}
}

func testRestoredSequences(t *testing.T, released bool, readDelay time.Duration) {
	m := newModel(t)
	m.store.readDelay = readDelay
	message := func(n int) amqp.Delivery {
		return amqp.Delivery{Exchange: "shop", MessageId: fmt.Sprintf("m-%d", n), Redelivered: true, Headers: amqp.Table{"x-delivery-count": int64(1)}}
	}
	now := time.Now()
	const lost = 1 // of three messages
	for n := range 3 {
		e := wire.Decoder{Source: "model", VHost: "/", Topology: m.topology}.Tapped(message(n), now, now.UnixMicro()+int64(n))
		if n != lost {
			m.store.create([]schemas.Document{schemas.DocumentFormat{}.Document(e)})
		}
	}
	former := eventstore.Watermark{Session: "killed", Sequence: now.UnixMicro() - 1}
	if released {
		former.Session = ""
		m.store.pass(now.UnixMicro() + 2)
	}
	document, err := json.Marshal(eventstore.Watermarks{Source: "model", Queues: map[string]eventstore.Watermark{m.topology.Index(): former}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.store.records.CreateRecord(t.Context(), eventstore.WatermarkRecord, "model", document); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		m.published[fmt.Sprintf("m-%d", n)] = true
		m.broker.publish(m.topology.Index(), message(n))
	}
	m.read()
	m.finish()
	sequence := m.store.sorted(eventstore.Cursor{}, eventstore.MaxSequence)[lost].Sequence
	if isRestored := sequence == now.UnixMicro()+lost; isRestored == released {
		t.Errorf("the lost message has sequence %d, the former of its predecessor is %d", sequence, now.UnixMicro())
	}
}
