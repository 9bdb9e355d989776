package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/schemas"
)

func TestStoreConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store { return installed(t, Config{Keep: storetest.KeepRules()}) })
}

func TestJobsConform(t *testing.T) {
	storetest.RunJobs(t, func(t *testing.T) storetest.Jobs { return installed(t, Config{Keep: storetest.KeepRules()}) })
}

func TestHandoversConform(t *testing.T) {
	storetest.RunHandovers(t, func(t *testing.T) storetest.Handovers { return installed(t, Config{Keep: storetest.KeepRules()}) })
}

func TestRecordsConform(t *testing.T) {
	storetest.RunRecords(t, func(t *testing.T) storetest.Records { return installed(t, Config{Keep: storetest.KeepRules()}) })
}

func TestReplacementsConform(t *testing.T) {
	storetest.RunReplacements(t, func(t *testing.T) storetest.Replacements { return installed(t, Config{Keep: storetest.KeepRules()}) })
}

func TestAggregationsConform(t *testing.T) {
	storetest.RunAggregations(t, func(t *testing.T) storetest.Aggregations { return installed(t, Config{Keep: storetest.KeepRules()}) })
}

// open opens a store at a new path.
func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "a store? 100%.db")
	}
	s, err := Open(t.Context(), cfg)
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

func installed(t testing.TB, cfg Config) *Store {
	t.Helper()
	s := open(t, cfg)
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// event is number n; each is a second and a sequence after the one before.
func event(prefix string, n int) schemas.Event {
	e := schemas.Event{Action: schemas.Published, Sequence: int64(n), Source: "test", VHost: "/"}
	e.EventID = fmt.Sprintf("%s%06d", prefix, n)
	e.Time = time.Date(2026, 5, 4, 0, 0, n, 0, time.UTC)
	e.Envelope = schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.created", Headers: amqp.Table{"tenant": fmt.Sprint("t", n%7), "n": int64(n)},
		Properties: schemas.Properties{MessageID: fmt.Sprint("m-", n), ContentType: "application/json"},
		Body:       fmt.Appendf(nil, `{"order":%d,"note":"hello number %d"}`, n, n),
	}
	e.BodySize = len(e.Envelope.Body)
	e.Fingerprint = e.Envelope.Fingerprint()
	return e
}

func eventDocuments(prefix string, from, to int) []schemas.Document {
	var docs []schemas.Document
	for n := from; n <= to; n++ {
		docs = append(docs, schemas.DocumentFormat{}.Document(event(prefix, n)))
	}
	return docs
}

// create fails the test unless every document is created.
func create(t testing.TB, s *Store, docs ...schemas.Document) {
	t.Helper()
	results, err := s.Create(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		if result.Status != eventstore.Created {
			t.Fatalf("document %d of %d: %+v", i+1, len(docs), result)
		}
	}
}
