package app

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// stopping is a store that fails after the first event that it reads.
type stopping struct{ EventStore }

func (s stopping) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		sel.Limit = 1
		for e, err := range s.EventStore.Events(ctx, sel) {
			if !yield(e, err) {
				return
			}
		}
		yield(schemas.Event{}, &eventstore.Error{Kind: eventstore.Unavailable, Reason: "reading"})
	}
}

// Confirmed events count although the store fails afterwards.
func TestDiscardCountsConfirmedEvents(t *testing.T) {
	broker := rabbittest.Embedded(t)
	a := newTestApp(t, "WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(t.TempDir(), "store.db"))
	events, err := a.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := events.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	var documents []schemas.Document
	for i, id := range []string{"a", "b"} {
		e := schemas.Event{
			Action: schemas.Poisoned, Sequence: int64(i + 1), Source: "test", Envelope: schemas.Envelope{Body: []byte(id)},
		}
		e.EventID, e.Time, e.Queue, e.Fingerprint = id, time.Now(), "orders", e.Envelope.Fingerprint()
		documents = append(documents, schemas.DocumentFormat{}.Document(e))
	}
	if _, err := events.Create(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
	topology, channel := a.Topology(), broker.Channel(t)
	if err := channel.ExchangeDeclare(topology.Events(), "topic", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare(topology.Log(), false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(topology.Log(), "#", topology.Events(), false, nil); err != nil {
		t.Fatal(err)
	}
	a.events = stopping{events}
	discarded, err := a.Discard(t.Context(), []string{"a", "b"}, Decision{Operator: "ann", Reason: "x"})
	var failed *eventstore.Error
	if discarded.Failures != 1 || !errors.As(err, &failed) {
		t.Errorf("%+v, %v", discarded, err)
	}
	if got := broker.Len(t, topology.Log()); got != 1 {
		t.Errorf("%d events were published", got)
	}
}
