package replayer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/replayer/internal/planbroker"
	"github.com/watershipmq/watership/schemas"
)

// testStore is a store with the writes that tests need.
type testStore interface {
	Store
	Jobs
	Create(ctx context.Context, docs []schemas.Document) ([]eventstore.Result, error)
	Refresh(ctx context.Context) error
}

// newStore returns an Elasticsearch store of the tests, or the embedded store for the
// embedded broker.
func newStore(t testing.TB, broker rabbittest.Broker) testStore {
	t.Helper()
	if !broker.Own {
		return takeStore(t)
	}
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

// streamStore is the store of a data stream of Elasticsearch.
type streamStore struct {
	*elastic.Store
	stream string
}

// unused are the stores of tests that have ended. Other tests get them, since to make one takes seconds.
var unused = make(chan streamStore, 16)

// takeStore returns a store that the test has alone until it ends, since a plan reads the highest sequence and the jobs
// of all that is in it. Events of former tests are of other sources.
func takeStore(t testing.TB) testStore {
	t.Helper()
	url := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if url == "" {
		t.Fatal("no store: WATERSHIP_TEST_STORE_URL is not set, and there is a RabbitMQ")
	}
	var taken streamStore
	select {
	case taken = <-unused:
	default:
		stream := "test-replayer-" + strings.ToLower(rand.Text())
		store, err := elastic.Open(elastic.Config{URLs: []string{url}, Stream: stream})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		taken = streamStore{store, stream}
	}
	t.Cleanup(func() {
		select {
		case unused <- taken:
		default:
			_ = taken.Close()
		}
	})
	return taken
}

// fixture has a broker with the exchange and queue of a shop, and a store.
type fixture struct {
	*Replayer
	t        testing.TB
	broker   rabbittest.Broker
	channel  *amqp.Channel
	store    testStore
	source   string
	exchange string
	queue    string // bound to the exchange with #
	sequence int64
	streams  func(schemas.Envelope) schemas.MessageStream // of the indexer; nil: none
	jobs     int
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureOn(t, rabbittest.Either(t))
}

func newFixtureOn(t testing.TB, broker rabbittest.Broker) *fixture {
	t.Helper()
	store := newStore(t, broker)
	name := strings.ToLower("t" + rand.Text()[:8])
	f := &fixture{
		t: t, broker: broker, store: store, source: name, exchange: name + "-shop",
		queue: name + "-orders", sequence: time.Now().UnixMicro(),
	}
	f.channel = f.broker.Channel(t)
	f.Replayer = New(f.config(schemas.Topology{Prefix: name}, f.broker.URL))
	f.recordTimeout = 0
	f.declare()
	return f
}

func (f *fixture) config(topology schemas.Topology, url string) Config {
	return Config{
		Store: f.store, Jobs: f.store, Topology: topology, Connection: rabbitmq.Connection{URL: url}, UncheckedRoutes: true, RouteQueues: routeQueues(f.source),
		NewID: func() string {
			f.jobs++
			return fmt.Sprintf("%s-%03d", f.source, f.jobs)
		},
	}
}

// logIs sets the state of the log queue for plans.
func (f *fixture) logIs(state func() Log) {
	f.planBroker = func(context.Context, Target) (planbroker.Broker, error) {
		return planbroker.Broker{
			Log:   func(context.Context) (planbroker.Log, error) { return planbroker.Log(state()), nil },
			Close: func() error { return nil },
		}, nil
	}
}

// verify reads a delivery as the consumer of a queue does.
func (f *fixture) verify(d amqp.Delivery, queue string) (wire.VerifiedState, error) {
	return (&wire.Verifier{Topology: f.cfg.Topology}).Verify(schemas.FromDelivery(d), d.Exchange, queue)
}

// routeQueues returns the queues of a test, as those of routes.
func routeQueues(name string) []string {
	return []string{name + "-orders", name + "-repair", name + "-gone", name + "-full"}
}

func (f *fixture) declare() {
	f.t.Helper()
	topology := f.cfg.Topology
	for name, kind := range map[string]string{f.exchange: "topic", topology.Events(): "topic", topology.Direct(): "direct"} {
		if err := f.channel.ExchangeDeclare(name, kind, true, false, false, false, nil); err != nil {
			f.t.Fatal(err)
		}
		f.broker.DeleteExchange(f.t, name)
	}
	f.bind(f.queue, f.exchange, "#", nil)
	f.bind(topology.Log(), topology.Events(), "#", nil)
}

func (f *fixture) bind(queue, exchange, key string, args amqp.Table) {
	f.t.Helper()
	if _, err := f.channel.QueueDeclare(queue, true, false, false, false, args); err != nil {
		f.t.Fatal(err)
	}
	f.broker.DeleteQueue(f.t, queue)
	if exchange == "" {
		return
	}
	if err := f.channel.QueueBind(queue, key, exchange, false, nil); err != nil {
		f.t.Fatal(err)
	}
}

// message returns message n of the shop.
func (f *fixture) message(n int) schemas.Envelope {
	return schemas.Envelope{
		Exchange: f.exchange, RoutingKey: "order.created", Body: fmt.Appendf(nil, `{"order":%d}`, n),
		Properties: schemas.Properties{ContentType: "application/json", MessageID: fmt.Sprint("m-", n), DeliveryMode: 2},
		Headers:    amqp.Table{"tenant": "acme", "n": int64(n)},
	}
}

func anonymous(e schemas.Envelope) schemas.Envelope {
	e.Properties.MessageID = ""
	return e
}

// event returns an event with the next sequence.
func (f *fixture) event(action schemas.Action, e schemas.Envelope) schemas.Event {
	f.sequence++
	event := schemas.Event{
		Action: action, TimeSource: wire.TimeOfEvent, Sequence: f.sequence, Ingested: time.Now(),
		Source: f.source, VHost: "/", Envelope: e, BodySize: len(e.Body),
	}
	event.Version, event.Fingerprint = header.Version, e.Fingerprint()
	event.EventID = fmt.Sprintf("%s:%d", f.source, f.sequence)
	event.Time = time.UnixMicro(f.sequence)
	if action != schemas.Published {
		event.Queue, event.Attempt, event.Message = f.queue, 1, "instance of "+event.EventID
	}
	return event
}

func (f *fixture) published(n int) schemas.Event { return f.event(schemas.Published, f.message(n)) }

func (f *fixture) poisoned(n int) schemas.Event {
	event := f.event(schemas.Poisoned, f.message(n))
	event.Failure = schemas.Failure{Message: "no stock", Type: "http.Status"}
	return event
}

// storeEvents stores events and makes them visible.
func (f *fixture) storeEvents(events ...schemas.Event) {
	f.t.Helper()
	for len(events) > 0 {
		some := events[:min(len(events), 1000)]
		events = events[len(some):]
		docs := make([]schemas.Document, len(some))
		for i, event := range some {
			docs[i] = schemas.DocumentFormat{}.Document(event)
		}
		results, err := f.store.Create(f.t.Context(), docs)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, result := range results {
			if result.Status != eventstore.Created && result.Status != eventstore.Conflict {
				f.t.Fatalf("storing an event: %+v", result)
			}
		}
	}
	if err := f.store.Refresh(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// storePublished stores `published` events of the messages 1 to n.
func (f *fixture) storePublished(n int) []schemas.Event {
	f.t.Helper()
	events := make([]schemas.Event, n)
	for i := range events {
		events[i] = f.published(i + 1)
	}
	f.storeEvents(events...)
	return events
}

// storeJob stores a job, unless another test has.
func (f *fixture) storeJob(job Job) {
	f.t.Helper()
	document, err := json.Marshal(job)
	if err == nil {
		_, err = f.store.CreateJob(f.t.Context(), job.ID, document)
	}
	var known *eventstore.Error
	if err != nil && !errors.As(err, &known) {
		f.t.Fatal(err)
	}
}

// indexLog stores the events in the log as the indexer does, and returns them.
func (f *fixture) indexLog() []schemas.Event {
	f.t.Helper()
	return f.index(f.drain(f.cfg.Topology.Log())...)
}

// index stores the events that messages of the log have.
func (f *fixture) index(deliveries ...amqp.Delivery) []schemas.Event {
	f.t.Helper()
	var events []schemas.Event
	decoder := wire.Decoder{Source: f.source, VHost: "/", Topology: f.cfg.Topology, Streams: f.streams}
	for _, d := range deliveries {
		bundle, bundled := decoder.Unbundle(d)
		if !bundled {
			event, err := decoder.Lifecycle(d, time.Now(), 0)
			if err != nil {
				f.t.Fatal(err)
			}
			bundle = []schemas.Event{event}
		}
		for _, event := range bundle {
			f.sequence++
			event.Sequence = f.sequence
			events = append(events, event)
		}
	}
	f.storeEvents(events...)
	return events
}

// drain returns all messages of a queue.
func (f *fixture) drain(queue string) []amqp.Delivery {
	f.t.Helper()
	return f.broker.Take(f.t, queue, f.broker.Len(f.t, queue))
}

// receivedIDs returns the message ids in a queue, in order.
func (f *fixture) receivedIDs(queue string) string {
	f.t.Helper()
	var ids []string
	for _, d := range f.drain(queue) {
		ids = append(ids, d.MessageId)
	}
	return strings.Join(ids, " ")
}

// job returns a job for the test's own events that also match text.
func (f *fixture) job(text string) Job {
	f.t.Helper()
	source := fmt.Sprintf("watership.source: %q", f.source)
	if text != "" {
		source += " and (" + text + ")"
	}
	if _, err := kql.Parse(source); err != nil {
		f.t.Fatal(err)
	}
	return Job{Query: source, Target: Target{Kind: ToOrigin}, Operator: "ann@host"}
}

func (f *fixture) plan(job Job) Plan {
	f.t.Helper()
	plan, err := f.Plan(f.t.Context(), job)
	if err != nil {
		f.t.Fatal(err)
	}
	return plan
}

func (f *fixture) create(job Job) Job {
	f.t.Helper()
	created, err := f.Create(f.t.Context(), f.plan(job))
	if err != nil {
		f.t.Fatal(err)
	}
	return created
}

func (f *fixture) saveJob(job *Job) {
	f.t.Helper()
	if err := f.save(f.t.Context(), job); err != nil {
		f.t.Fatal(err)
	}
}

// pausedAfter saves a job as one that has sent the messages up to number n of some events.
func (f *fixture) pausedAfter(job Job, n int, events []schemas.Event) Job {
	f.t.Helper()
	last := events[n-1]
	job.State, job.Sent, job.Scanned, job.Cursor = Paused, n, int64(n), eventstore.Cursor{Sequence: last.Sequence, EventID: last.EventID}
	f.saveJob(&job)
	return job
}

// run plans, creates and runs a job.
func (f *fixture) run(job Job) Job {
	f.t.Helper()
	return f.resume(f.create(job), RunOptions{})
}

func (f *fixture) resume(job Job, o RunOptions) Job {
	f.t.Helper()
	ran, err := f.Run(f.t.Context(), job.ID, o)
	if err != nil {
		f.t.Fatal(err)
	}
	return ran
}

func wantJob(t testing.TB, job Job, state State, sent, failed int) {
	t.Helper()
	if job.State != state || job.Sent != sent || job.Failed != failed {
		t.Errorf("the job is %s (%s), sent %d, failed %d; want %s, %d, %d",
			job.State, job.Problem, job.Sent, job.Failed, state, sent, failed)
	}
}

func wantAs[E error](t *testing.T, err error) E {
	t.Helper()
	var want E
	if !errors.As(err, &want) {
		t.Fatalf("got error %v, want a %T", err, want)
	}
	return want
}

// verifiedByID returns the messages by their ids, and checks their fingerprints.
func (f *fixture) verifiedByID(deliveries []amqp.Delivery) map[string]wire.VerifiedState {
	f.t.Helper()
	verified := map[string]wire.VerifiedState{}
	for _, d := range deliveries {
		v, err := f.verify(d, "")
		if err != nil {
			f.t.Fatal(err)
		}
		if v.State.Fingerprint != v.Envelope.Fingerprint() {
			f.t.Errorf("message %s has the fingerprint %s", d.MessageId, v.State.Fingerprint)
		}
		verified[d.MessageId] = v
	}
	return verified
}
