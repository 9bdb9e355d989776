package indexer

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// system is a topology and a tapped exchange with unique names, deleted after the test.
type system struct {
	rabbittest.Broker
	t        testing.TB
	topology schemas.Topology
	decoder  wire.Decoder
	shop     string // the tapped exchange, a topic
	log      *rabbittest.Log

	publisher *rabbit.Publisher
}

func newSystem(t testing.TB, b rabbittest.Broker) *system {
	t.Helper()
	return newSystemOf(t, b, schemas.Topology{})
}

// newSystemOf is newSystem with other queues of copies. The prefix is the system's.
func newSystemOf(t testing.TB, b rabbittest.Broker, topologyOf schemas.Topology) *system {
	t.Helper()
	name := rabbittest.Name(t)
	topologyOf.Prefix = name
	s := &system{Broker: b, t: t, topology: topologyOf, shop: "shop." + name, log: &rabbittest.Log{}}
	s.decoder = wire.Decoder{Source: name, VHost: "/", Topology: s.topology}
	conn := s.open(b.URL, false)
	err := topology.Declare(patient(t), conn, topology.Config{
		Topology: s.topology, Tap: []topology.Tap{{Exchange: s.shop, Type: "topic"}}, Delays: []time.Duration{delay},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range append(s.topology.Queues(), wire.DelaysOf(s.topology).Queue(delay)) {
		b.DeleteQueue(t, queue)
	}
	for _, exchange := range append(s.topology.Exchanges(), s.shop) {
		b.DeleteExchange(t, exchange)
	}
	s.publisher = rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	t.Cleanup(func() { _ = s.publisher.Close() })
	return s
}

const delay = 50 * time.Millisecond

func (s *system) open(url string, consuming bool) *rabbit.Connection {
	s.t.Helper()
	conn, err := rabbit.Open(rabbit.Config{
		URL: url, Name: s.t.Name(), LargeFrames: consuming, Logger: s.log.Logger(),
		Backoff: backoff.Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// publish sends messages as their publisher does, and waits for the confirms.
func (s *system) publish(envelopes ...schemas.Envelope) {
	s.t.Helper()
	messages := make([]rabbit.Message, len(envelopes))
	for i, e := range envelopes {
		messages[i] = rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}
	}
	s.send(messages...)
}

func (s *system) send(messages ...rabbit.Message) {
	s.t.Helper()
	ctx := patient(s.t)
	pending := make([]*rabbit.Pending, len(messages))
	var err error
	for i, m := range messages {
		if pending[i], err = s.publisher.Send(ctx, m); err != nil {
			s.t.Fatalf("publish message %d: %v", i, err)
		}
	}
	for i, p := range pending {
		if err := p.Wait(ctx); err != nil {
			s.t.Fatalf("publish message %d: %v", i, err)
		}
	}
}

// message is the nth of a kind.
func (s *system) message(kind string, n int) schemas.Envelope {
	return schemas.Envelope{
		Exchange: s.shop, RoutingKey: "order.created", Body: fmt.Appendf(nil, `{"kind":%q,"n":%d}`, kind, n),
		Properties: schemas.Properties{MessageID: fmt.Sprintf("%s-%d", kind, n), DeliveryMode: 2, ContentType: "application/json"},
	}
}

func (s *system) messages(kind string, count int) []schemas.Envelope {
	list := make([]schemas.Envelope, count)
	for n := range list {
		list[n] = s.message(kind, n)
	}
	return list
}

// running is an indexer and its connections.
type running struct {
	*Indexer
	stop func() // waits until it has ended
}

// start runs an indexer that ends with the test at the latest. Adjust may be nil.
func (s *system) start(store Store, adjust func(*Config)) *running {
	s.t.Helper()
	return s.startAt(s.URL, store, adjust)
}

func (s *system) startAt(url string, store Store, adjust func(*Config)) *running {
	s.t.Helper()
	cfg := s.config(store)
	consuming := s.open(url, true)
	sending := s.open(s.URL, false)
	publisher := rabbit.NewPublisher(sending, rabbit.PublisherConfig{})
	cfg.Broker, cfg.Publisher = rabbit.Consumer{Connection: consuming}, rabbit.ExchangePublisher{Publisher: publisher}
	if adjust != nil {
		adjust(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	x := New(cfg)
	go func() { ended <- x.Run(ctx) }()
	r := &running{Indexer: x, stop: sync.OnceFunc(func() {
		cancel()
		select { // Receive would end the goroutine, which OnceFunc makes a panic that ends all tests
		case err := <-ended:
			if err != nil {
				s.t.Errorf("the indexer ended with: %v", err)
			}
		case <-time.After(rabbittest.Timeout):
			s.t.Error("the indexer does not end")
		}
		_ = publisher.Close()
		_ = sending.Close()
		_ = consuming.Close()
	})}
	s.t.Cleanup(r.stop)
	return r
}

func (s *system) config(store Store) Config {
	return Config{
		Store: store, Source: s.decoder.Source, VHost: s.decoder.VHost, Topology: s.topology, Logger: s.log.Logger(),
		Batch: Batch{Wait: 20 * time.Millisecond},
	}
}

// testStore is a store that a test reads.
type testStore interface {
	Store
	CreateJob(ctx context.Context, id string, document []byte) (version string, err error)
	Refresh(ctx context.Context) error
	Count(ctx context.Context, sel eventstore.Selection) (int64, error)
	Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error]
	Install(ctx context.Context) error
}

// newStore is the real Elasticsearch, with streams of its own, or the embedded
// store where the broker is the embedded one.
func newStore(t testing.TB, b rabbittest.Broker) testStore {
	t.Helper()
	if !b.Own {
		return newStoreAt(t, storeURL(t))
	}
	store := openFile(t, filepath.Join(t.TempDir(), "store.db"))
	if err := store.Install(patient(t)); err != nil {
		t.Fatal(err)
	}
	return store
}

func openFile(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(patient(t), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func newStoreAt(t testing.TB, url string) *elastic.Store {
	t.Helper()
	store := openStore(t, url, streamName())
	if err := store.Install(patient(t)); err != nil {
		t.Fatal(err)
	}
	return store
}

// streamName is of data streams that no other test uses: they cannot be
// deleted on the server that tests have.
func streamName() string { return "test-" + strings.ToLower(rand.Text()) }

func openStore(t testing.TB, url, stream string) *elastic.Store {
	t.Helper()
	store, err := elastic.Open(elastic.Config{URLs: []string{url}, Stream: stream})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = store.Close()
		ask(t, http.MethodDelete, "/"+stream+".jobs?ignore_unavailable=true", "")
	})
	return store
}

func storeURL(t testing.TB) string {
	t.Helper()
	url := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if url == "" {
		const reason = `no store: WATERSHIP_TEST_STORE_URL is not set (scripts/services up; eval "$(scripts/services env)")`
		if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	return url
}

// ask sends a request to Elasticsearch itself.
func ask(t testing.TB, method, path, body string) (answered string) {
	t.Helper()
	request, err := http.NewRequestWithContext(patient(t), method, storeURL(t)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s %v", method, path, answer.Status, text, err)
	}
	return string(text)
}

// events reads this test's events in the order of their sequence.
func (s *system) events(store testStore, text string) []schemas.Event {
	s.t.Helper()
	if err := store.Refresh(patient(s.t)); err != nil {
		s.t.Fatal(err)
	}
	var list []schemas.Event
	for event, err := range store.Events(patient(s.t), s.selection(text)) {
		if err != nil {
			s.t.Fatalf("after %d events: %v", len(list), err)
		}
		list = append(list, event)
	}
	return list
}

func (s *system) selection(text string) eventstore.Selection {
	s.t.Helper()
	all := fmt.Sprintf("watership.source: %q", s.decoder.Source)
	if text != "" {
		all += " and (" + text + ")"
	}
	node, err := kql.Parse(all)
	if err != nil {
		s.t.Fatal(err)
	}
	return eventstore.Selection{Query: node, Order: eventstore.BySequence}
}

// wait waits until the store has want events, without duplicates.
func (s *system) wait(store testStore, want int) []schemas.Event {
	s.t.Helper()
	var got []schemas.Event
	if rabbittest.Poll(rabbittest.Timeout, func() bool {
		if s.count(store) >= int64(want) {
			got = s.events(store, "")
		}
		return len(got) >= want
	}) {
		return got
	}
	for _, queue := range s.topology.Indexed() {
		s.t.Logf("%d messages wait in %s", s.Len(s.t, queue), queue)
	}
	s.t.Fatalf("%d events, want %d\n%s", len(got), want, s.log)
	return nil
}

// counted waits until the store has want documents, and fails if it has more.
func (s *system) counted(store testStore, want int) {
	s.t.Helper()
	var got int64
	rabbittest.Poll(rabbittest.Timeout, func() bool { got = s.count(store); return got >= int64(want) })
	if got != int64(want) {
		s.t.Fatalf("%d documents, want %d\n%s", got, want, s.log)
	}
}

// count returns how many documents of this test the store has.
func (s *system) count(store testStore) int64 {
	s.t.Helper()
	if err := store.Refresh(patient(s.t)); err != nil {
		s.t.Fatal(err)
	}
	got, err := store.Count(patient(s.t), s.selection(""))
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// finish waits for want events, stops the indexers, and fails if there are more events or
// if messages are left in a queue.
func (s *system) finish(store testStore, want int, indexers ...*running) []schemas.Event {
	s.t.Helper()
	s.wait(store, want)
	for _, x := range indexers {
		x.stop()
	}
	for _, queue := range s.topology.Indexed() {
		if left := s.Len(s.t, queue); left > 0 {
			s.t.Errorf("%d messages in %s are indexed and not acknowledged", left, queue)
		}
	}
	got := s.events(store, "")
	if len(got) != want {
		s.t.Errorf("%d events, want %d", len(got), want)
	}
	return got
}

// patient returns a context with the time-out of a test.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), rabbittest.Timeout)
	t.Cleanup(cancel)
	return ctx
}
