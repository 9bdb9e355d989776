package app

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/waiting"
	"github.com/watershipmq/watership/replayer"
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

// Each decision of an operator has a reason of a length that the HTTP API takes, too.
func TestDecisionsHaveReasons(t *testing.T) {
	settings, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{" ": "expected a reason", strings.Repeat("é", 1001): "the reason has 1001 characters: expected at most 1000", "\xff": "the reason is not UTF-8"} {
		d, long := Decision{Operator: "ann", Reason: text}, text != " "
		for name, decide := range map[string]func() error{
			"discard":    func() error { _, err := a.Discard(t.Context(), []string{"x"}, d); return err },
			"pause":      func() error { return a.PauseRoute(t.Context(), "orders", d) },
			"pause all":  func() error { return a.PauseAll(t.Context(), d) },
			"resume":     func() error { _, err := a.ResumeRoute(t.Context(), "orders", d); return err },
			"resume all": func() error { _, err := a.ResumeAll(t.Context(), d); return err },
			"replay":     func() error { _, err := a.ReplayJob(ReplayRequest{Job: replayer.Job{Reason: text}}); return err },
			"waiting": func() error {
				_, _, err := a.DecideWaiting(t.Context(), waiting.Decision{Action: waiting.Cancel, Reason: text}, nil)
				return err
			},
		} {
			isOptional := name == "replay" || strings.HasPrefix(name, "resume")
			if isOptional && !long {
				continue
			}
			var input InputError
			if err := decide(); !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
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
