package failures

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// stopping is a store that fails after the first event that it reads.
type stopping struct{ system.EventStore }

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

// A discard needs a reason of a length that the HTTP API takes, too.
func TestDiscardNeedsAReason(t *testing.T) {
	sys := systemtest.New(t)
	for text, want := range map[string]string{
		" ": "expected a reason", strings.Repeat("é", 1001): "the reason has 1001 characters: expected at most 1000", "\xff": "the reason is not UTF-8",
	} {
		_, err := discardAll(t.Context(), sys, []string{"x"}, reason.Decision{Operator: "ann", Reason: text})
		var input system.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Confirmed events count although the store fails afterwards.
func TestDiscardCountsConfirmedEvents(t *testing.T) {
	sys, broker := systemtest.Embedded(t)
	events, err := sys.Store(t.Context())
	if err != nil {
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
	topology, channel := sys.Topology(), broker.Channel(t)
	if err := channel.ExchangeDeclare(topology.Events(), "topic", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare(topology.Log(), false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind(topology.Log(), "#", topology.Events(), false, nil); err != nil {
		t.Fatal(err)
	}
	publisher, err := sys.Publisher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := discarding{
		System: sys, Decision: reason.Decision{Operator: "ann", Reason: "x"}, events: stopping{events}, publisher: publisher, queues: map[string]bool{},
	}
	confirmed, err := d.publish(t.Context(), []string{"a", "b"})
	var failed *eventstore.Error
	if confirmed != 1 || !errors.As(err, &failed) {
		t.Errorf("%d, %v", confirmed, err)
	}
	if got := broker.Len(t, topology.Log()); got != 1 {
		t.Errorf("%d events were published", got)
	}
}

// An error in the middle says how many failures were discarded.
func TestADiscardThatFailsInTheMiddle(t *testing.T) {
	sys, broker := systemtest.Embedded(t, routesOfTests)
	systemtest.Record(t, sys, failed("orders", "a", "x"), failed("orders", "b", "x"), failed("orders", "c", "x"))
	topology, channel := sys.Topology(), broker.Channel(t)
	must(t, channel.ExchangeDeclare(topology.Events(), "topic", false, false, false, false, nil))
	_, err := channel.QueueDeclare(topology.Log(), false, false, false, false, amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish"})
	must(t, err)
	must(t, channel.QueueBind(topology.Log(), "#", topology.Events(), false, nil))
	in := &DiscardInput{}
	in.Body.Query, in.Body.Reason = "queue: orders", "test orders"
	_, err = operations{Service{sys}}.discardFailures(as(t), in)
	wantStatus(t, err, http.StatusServiceUnavailable, "2 failures were changed before: ")
	if p := problem.New(t.Context(), err); p.Done != 2 {
		t.Errorf("%d were changed", p.Done)
	}
}
