package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// startTime is the time of event 0.
var startTime = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// event is number n of a test; each is a second and a sequence after the one before.
func (s subject) event(n int) schemas.Event {
	e := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.created",
		Properties: schemas.Properties{ContentType: "application/json", MessageID: fmt.Sprint("m-", n)},
		Headers:    amqp.Table{"tenant": "acme", "attempt": int32(n)},
		Body:       fmt.Appendf(nil, `{"order":%d}`, n),
	}
	event := schemas.Event{
		Action: schemas.Published, TimeSource: wire.TimeOfBroker, Sequence: int64(n),
		Ingested: startTime, Source: s.source, VHost: "/", Envelope: e, BodySize: len(e.Body),
	}
	event.Version = header.Version
	event.Fingerprint = e.Fingerprint()
	event.EventID = fmt.Sprintf("%s:%d", s.source, n)
	event.Time = startTime.Add(time.Duration(n) * time.Second)
	return event
}

func (s subject) events(from, to int) []schemas.Event {
	var list []schemas.Event
	for n := from; n <= to; n++ {
		list = append(list, s.event(n))
	}
	return list
}

// raw is a document that is no event.
func (s subject) raw(id, source string) schemas.Document {
	return schemas.Document{ID: s.source + id, Stream: schemas.Traffic, Source: []byte(source)}
}

func documents(events ...schemas.Event) []schemas.Document {
	docs := make([]schemas.Document, len(events))
	for i, event := range events {
		docs[i] = schemas.DocumentFormat{}.Document(event)
	}
	return docs
}

// create checks the statuses, in order.
func (s subject) create(t *testing.T, docs []schemas.Document, want ...eventstore.Status) []eventstore.Result {
	t.Helper()
	results, err := s.Create(t.Context(), docs)
	if err != nil {
		t.Fatalf("creating %d documents: %v", len(docs), err)
	}
	if len(results) != len(want) {
		t.Fatalf("%d results for %d documents", len(results), len(docs))
	}
	for i, result := range results {
		if result.Status != want[i] {
			t.Errorf("document %d of %d: got %+v, want status %d", i+1, len(docs), result, want[i])
		}
	}
	return results
}

// createVisible creates events and refreshes.
func (s subject) createVisible(t *testing.T, events ...schemas.Event) {
	t.Helper()
	want := make([]eventstore.Status, len(events))
	for i := range want {
		want[i] = eventstore.Created
	}
	s.create(t, documents(events...), want...)
	s.refresh(t)
}

func (s subject) refresh(t *testing.T) {
	t.Helper()
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// selectOwn selects the test's own documents that match text.
func (s subject) selectOwn(t *testing.T, text string) eventstore.Selection {
	t.Helper()
	source := fmt.Sprintf("watership.source: %q", s.source)
	if text != "" {
		source += " and (" + text + ")"
	}
	node, err := kql.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	return eventstore.Selection{Query: node}
}

func (s subject) read(t *testing.T, sel eventstore.Selection) []schemas.Event {
	t.Helper()
	var list []schemas.Event
	for event, err := range s.Events(t.Context(), sel) {
		if err != nil {
			t.Fatalf("after %d events: %v", len(list), err)
		}
		list = append(list, event)
	}
	return list
}

func (s subject) count(t *testing.T, sel eventstore.Selection) int64 {
	t.Helper()
	n, err := s.Count(t.Context(), sel)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// eventNumbers prints the sequences of events in one line.
func eventNumbers(events []schemas.Event) string {
	var list []string
	for _, event := range events {
		list = append(list, fmt.Sprint(event.Sequence))
	}
	return strings.Join(list, " ")
}

func wantNumbers(t *testing.T, got []schemas.Event, want string) {
	t.Helper()
	if eventNumbers(got) != want {
		t.Errorf("got events %q, want %q", eventNumbers(got), want)
	}
}
