// Package systemtest gives tests a System.
package systemtest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

// New returns a System with settings as environment variables have them. It ends with the test.
func New(t testing.TB, environ ...string) *system.System {
	t.Helper()
	settings, err := config.Load(config.Sources{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	s, err := system.New(system.Config{Settings: settings, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Embedded is New with an embedded broker and its management API, and with a store in a file whose
// tables exist.
func Embedded(t testing.TB, environ ...string) (*system.System, rabbittest.Broker) {
	t.Helper()
	broker := rabbittest.Embedded(t)
	s := New(t, append([]string{
		"WATERSHIP_AMQP_URL=" + broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL=" + broker.ManagementURL,
		"WATERSHIP_SOURCE=test", "WATERSHIP_STORE_URL=sqlite:" + StoreFile(t),
	}, environ...)...)
	return s, broker
}

// StoreFile returns the path of an empty store whose tables exist. It ends with the test.
func StoreFile(t testing.TB) string {
	t.Helper()
	content, err := emptyStore()
	path := filepath.Join(t.TempDir(), "store.db")
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// emptyStore returns the content of a file whose tables exist: copies of it are there at a tenth of the cost.
var emptyStore = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "store")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "store.db")
	store, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	if err != nil {
		return nil, err
	}
	err = store.Install(context.Background())
	if closed := store.Close(); err == nil {
		err = closed // only now all of it is in one file
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// Store opens an empty store whose tables exist. It ends with the test.
func Store(t testing.TB) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(context.Background(), sqlite.Config{Path: StoreFile(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// Record stores events in their order. Those without an id, a time or a fingerprint get one, and
// each gets the source and the vhost of the System.
func Record(t testing.TB, s *system.System, events ...schemas.Event) {
	t.Helper()
	store, err := s.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sequence, err := store.HighestSequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var documents []schemas.Document
	for _, e := range events {
		sequence++
		e.Sequence, e.Source, e.VHost = sequence, s.Settings().Source, s.VHost()
		if e.EventID == "" {
			e.EventID = "event-" + strconv.FormatInt(sequence, 10)
		}
		if e.Time.IsZero() {
			e.Time = time.Now()
		}
		if e.Fingerprint == "" {
			e.Fingerprint = e.Envelope.Fingerprint()
		}
		documents = append(documents, s.DocumentFormat().Document(e))
	}
	results, err := store.Create(t.Context(), documents)
	if err == nil {
		err = store.Refresh(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Status != eventstore.Created {
			t.Fatalf("%+v", r)
		}
	}
}

// Events returns the stored events that match a query, in the order of their sequences.
func Events(t testing.TB, s *system.System, query string) (found []schemas.Event) {
	t.Helper()
	node, err := s.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	store, err := s.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range store.Events(t.Context(), eventstore.Selection{Query: node, Order: eventstore.BySequence}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e)
	}
	return found
}

// Index declares the topology of a System, and stores the events that its processes publish until
// the test ends.
func Index(t testing.TB, s *system.System) {
	t.Helper()
	settings := s.Settings()
	if err := pipeline.Declare(t.Context(), pipeline.Config{Connection: rabbitmq.Connection{URL: s.ServerURL()}, Topology: s.Topology()}); err != nil {
		t.Fatal(err)
	}
	store, err := s.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	indexes := indexer.New(indexer.Config{
		Connection: rabbitmq.Connection{URL: s.ServerURL()}, Store: store, Format: s.DocumentFormat(), Logger: s.Logger(), Batch: indexer.Batch{Wait: time.Millisecond},
		Source: settings.Source, VHost: s.VHost(), Topology: s.Topology(),
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := indexes.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	awaitConsumer(t, s)
}

// awaitConsumer waits until the index queue has a consumer: what waits for events does so for seconds only.
func awaitConsumer(t testing.TB, s *system.System) {
	t.Helper()
	conn, err := s.Open("looking", false)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rabbittest.Eventually(t, "the indexer consumes", func() bool {
		state, _, err := conn.QueueState(t.Context(), s.Topology().Index())
		if err != nil {
			t.Fatal(err)
		}
		return state.Consumers > 0
	})
}
