package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// A stream is loaded by version, each message once, and its part by a query.
func TestStream(t *testing.T) {
	store := newStore(t)
	var documents []schemas.Document
	keep := func(n int64, message, stream string, version int64, change ...func(*schemas.Event)) {
		e := schemas.Event{Action: schemas.Published, Sequence: n, Source: source, VHost: "/"}
		e.EventID, e.Time = fmt.Sprint("e-", n), time.UnixMicro(n).UTC()
		e.Envelope = schemas.Envelope{RoutingKey: "orders", Body: []byte(message), Properties: schemas.Properties{MessageID: message}}
		e.Fingerprint = e.Envelope.Fingerprint()
		e.Stream = schemas.MessageStream{ID: stream, Version: version, HasVersion: version >= 0}
		for _, f := range change {
			f(&e)
		}
		documents = append(documents, schemas.DocumentFormat{}.Document(e))
	}
	keep(1, "m-1", "order-42", 1)
	keep(2, "other", "order-43", 1)
	keep(3, "m-3", "order-42", 3)
	keep(4, "m-2", "order-42", 2)
	keep(5, "m-3", "order-42", 3)
	keep(6, "last", "order-42", -1)
	keep(7, "m-1", "order-42", 1, func(e *schemas.Event) { e.Action, e.Queue = schemas.Handled, "orders" })
	keep(8, "foreign", "order-42", 4, func(e *schemas.Event) { e.Source = "elsewhere" })
	if _, err := store.Create(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
	upTo2, err := kql.Parse("watership.stream.version <= 2")
	if err != nil {
		t.Fatal(err)
	}
	for want, query := range map[string]kql.Node{"m-1 m-2 m-3 last": nil, "m-1 m-2": upTo2} {
		events, err := subscription.Reader{Store: store, Source: source, Query: query}.Stream(t.Context(), "order-42")
		var bodies []string
		for _, e := range events {
			bodies = append(bodies, string(e.Envelope.Body))
		}
		if got := strings.Join(bodies, " "); got != want || err != nil {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
	if events, err := (subscription.Reader{Store: store, Source: source}).Stream(t.Context(), "nobody"); len(events) != 0 || err != nil {
		t.Errorf("a stream without messages: %d, %v", len(events), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (subscription.Reader{Store: store, Source: source}).Stream(ended, "order-42"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
