package subscription_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// toVersion2 gives orders of version 1 a currency.
const toVersion2 = `if .properties.type == "order" and .headers.version == 1 then .headers.version = 2 | .body.total = {amount: (.body.total + 100), currency: "EUR"} else . end`

// storeOrders stores a published order for each body, with the version 1, or 2 if it has a currency.
func storeOrders(t *testing.T, store *sqlite.Store, first int64, bodies ...string) {
	t.Helper()
	var documents []schemas.Document
	for i, body := range bodies {
		n, version := first+int64(i), int64(1)
		if strings.Contains(body, "currency") {
			version = 2
		}
		e := schemas.Event{Action: schemas.Published, Sequence: n, Source: source, VHost: "/"}
		e.EventID, e.Time = fmt.Sprintf("shop-%d", n), time.UnixMicro(n).UTC()
		e.Envelope = schemas.Envelope{
			Exchange: "shop", RoutingKey: "order", Body: []byte(body), Headers: amqp.Table{"version": version},
			Properties: schemas.Properties{Type: "order", MessageID: fmt.Sprint(n), Expiration: "60000"},
		}
		e.Fingerprint = e.Envelope.Fingerprint()
		e.Stream.ID = fmt.Sprintf("order-%d", n%2)
		documents = append(documents, schemas.DocumentFormat{}.Document(e))
	}
	if _, err := store.Create(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
}

// A target gets each message in the version that the program makes. One for which it fails is parked with the
// reason and the version of the program, and another program delivers it.
func TestUpcast(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	queue := r.broker.Queue(t, nil)
	r.cfg.RouteQueues = []string{queue}
	s := subscription.New(r.cfg)
	storeOrders(t, r.store, 1, `{"total":1}`, `{"total":{"amount":7,"currency":"USD"}}`, `{"total":"none"}`, `{"total":3}`)
	sub := toQueue("orders", queue)
	sub.Upcast.Program = toVersion2
	if created := r.create(t, s, sub); created.Upcast.Version != 1 {
		t.Errorf("%+v", created.Upcast)
	}
	r.serve(t, s)
	verifier := wire.Verifier{Topology: r.cfg.Topology}
	want := func(bodies ...string) {
		t.Helper()
		for i, d := range r.broker.Take(t, queue, len(bodies)) {
			if string(d.Body) != bodies[i] || d.Headers["version"] != int64(2) {
				t.Errorf("delivery %d is %s with %v", i, d.Body, d.Headers)
			}
			got, err := verifier.Verify(schemas.FromDelivery(d), d.Exchange, queue)
			if err != nil || got.Mismatch || got.State.Queue != queue {
				t.Errorf("a route takes delivery %d for another message: %+v, %v", i, got, err)
			}
			if isChanged := !strings.Contains(bodies[i], "USD"); got.State.Untapped != isChanged {
				t.Errorf("a tap has seen %s: %t", d.Body, !got.State.Untapped)
			}
		}
	}
	want(`{"total":{"amount":101,"currency":"EUR"}}`, `{"total":{"amount":7,"currency":"USD"}}`, `{"total":{"amount":103,"currency":"EUR"}}`)
	var parked []subscription.Parked
	var err error
	rabbittest.Eventually(t, "a message is parked", func() bool {
		parked, err = s.Parked(t.Context(), "orders")
		return err != nil || len(parked) > 0
	})
	if err != nil || len(parked) != 1 || parked[0].MessageID != "3" || parked[0].Cause != subscription.UpcastFailed ||
		!strings.HasPrefix(parked[0].Error, "version 1: cannot add") {
		t.Fatalf("%+v, %v", parked, err)
	}
	program := `.body.total |= (numbers // 0) | ` + toVersion2
	changed, err := s.Configure(t.Context(), "orders", "ann", subscription.Settings{Upcast: &program})
	if err != nil || changed.Upcast != (subscription.Upcast{Program: program, Version: 2}) {
		t.Fatalf("%+v, %v", changed.Upcast, err)
	}
	if _, err := s.RetryParked(t.Context(), "orders", "ann", nil); err != nil {
		t.Fatal(err)
	}
	want(`{"total":{"amount":100,"currency":"EUR"}}`)
}

// A message without an output is poison, and so is one for a queue with another routing key. An invalid program is
// refused.
func TestUpcastsThatAreRefused(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	s := subscription.New(r.cfg)
	storeOrders(t, r.store, 1, `{"total":1}`)
	for program, want := range map[string]string{
		"null":                      "it has no output",
		`.routing_key = "other"`:    "it changes the exchange or the routing key",
		`.body = error("no total")`: "no total",
	} {
		sub := toQueue(fmt.Sprintf("n%d", len(program)), r.broker.Queue(t, nil))
		sub.Upcast.Program, sub.OnPoison = program, subscription.Stop
		r.create(t, s, sub)
		stop := r.serve(t, s)
		rabbittest.Eventually(t, "it stops", func() bool { return get(t, s, sub.Name).State == subscription.Stopped })
		stop()
		if reason := get(t, s, sub.Name).Reason; !strings.Contains(reason, "the upcast of the subscription failed: version 1: ") || !strings.Contains(reason, want) {
			t.Errorf("%s: %q", program, reason)
		}
	}
	sub := toQueue("invalid", "q")
	sub.Upcast.Program = ".body |"
	if _, err := s.Create(t.Context(), sub, subscription.From{}); err == nil || !strings.Contains(err.Error(), "upcast of subscription invalid: the program cannot be parsed") {
		t.Error(err)
	}
}

// Streams side by side get their messages upcast, in order, and a handler may get another routing key.
func TestUpcastSideBySide(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	s := subscription.New(r.cfg)
	var bodies []string
	for n := range int64(700) { // more than a page
		bodies = append(bodies, fmt.Sprintf(`{"total":%d}`, n+1))
	}
	storeOrders(t, r.store, 1, bodies...)
	sub := toHandler("orders")
	sub.By, sub.Upcast.Program = subscription.ByStream, toVersion2+` | .routing_key = "order.v2"`
	r.create(t, s, sub)
	var got [2]positions
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		n := d.Position.Sequence
		if want := fmt.Sprintf(`{"total":{"amount":%d,"currency":"EUR"}}`, n+100); string(d.Event.Envelope.Body) != want || d.Event.Envelope.RoutingKey != "order.v2" {
			t.Errorf("event %d is %s with the key %s", n, d.Event.Envelope.Body, d.Event.Envelope.RoutingKey)
		}
		got[n%2].add(n)
		return nil
	})
	rabbittest.Eventually(t, "all are handled", func() bool { return len(got[0].list())+len(got[1].list()) == len(bodies) })
	for i := range got {
		if list := got[i].list(); !slices.IsSorted(list) {
			t.Errorf("%v", list)
		}
	}
}

// Bodies that a program makes large are delivered in parts of a page.
func TestLargeUpcasts(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	s := subscription.New(r.cfg)
	storeOrders(t, r.store, 1, slices.Repeat([]string{`{}`}, 20)...)
	sub := toHandler("orders")
	sub.Upcast.Program = `.body = "x" * 999998`
	r.create(t, s, sub)
	var got positions
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		if got.add(d.Position.Sequence); len(d.Event.Envelope.Body) != 1_000_000 {
			t.Errorf("a body of %d bytes", len(d.Event.Envelope.Body))
		}
		return nil
	})
	rabbittest.Eventually(t, "all are handled", func() bool { return get(t, s, "orders").Checkpoint.Delivered == 20 })
	if !slices.Equal(got.list(), numbers(1, 20)) {
		t.Errorf("%v", got.list())
	}
}

// An event that the consumer of the target has caused is not delivered, so it is not upcast either.
func TestUpcastsOfSkippedEvents(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	queue := r.broker.Queue(t, nil)
	s := subscription.New(r.cfg)
	caused := schemas.Event{Action: schemas.Poisoned, Sequence: 1, Source: source, VHost: "/"}
	caused.EventID, caused.Queue, caused.Time = "caused", queue, time.UnixMicro(1).UTC()
	caused.Envelope.Body = []byte(`{}`)
	caused.Fingerprint = caused.Envelope.Fingerprint()
	if _, err := r.store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(caused)}); err != nil {
		t.Fatal(err)
	}
	storeOrders(t, r.store, 2, `{"currency":"EUR"}`)
	sub := toQueue("orders", queue)
	sub.Query, sub.Upcast.Program = "event.action: (published or poisoned)", `if .body.currency then . else error("no currency") end`
	r.create(t, s, sub)
	r.serve(t, s)
	r.broker.Take(t, queue, 1)
	rabbittest.Eventually(t, "it has caught up", func() bool { return get(t, s, "orders").Checkpoint.CaughtUp })
	if c := get(t, s, "orders").Checkpoint; c.Parked != 0 || c.Delivered != 1 {
		t.Errorf("%+v", c)
	}
}

// A program runs in a process with limits. A message for which it exceeds one stops the subscription after the
// messages before it, also when it is retried, until there is another program.
func TestUpcastWithLimits(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	r.cfg.Programs = transform.NewProcesses()
	t.Cleanup(r.cfg.Programs.Close)
	s := subscription.New(r.cfg)
	storeOrders(t, r.store, 1, `{"total":1}`, `{"total":2}`, `{"total":3}`)
	sub := toHandler("orders")
	sub.Upcast.Program = `if .body.total == 2 then .body = (null | .[536870911] = 1) else . end`
	r.create(t, s, sub)
	var got positions
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		got.add(d.Position.Sequence)
		return nil
	})
	rabbittest.Eventually(t, "it stops", func() bool { return get(t, s, "orders").State == subscription.Stopped })
	if reason := get(t, s, "orders").Reason; !strings.Contains(reason, "event shop-2 at position 2:shop-2 cannot be upcast by version 1") || !strings.Contains(reason, "memory") {
		t.Errorf("%q", reason)
	}
	if list := got.list(); !slices.Equal(list, numbers(1, 1)) {
		t.Errorf("delivered %v", list)
	}
	none := ""
	if _, err := s.Configure(t.Context(), "orders", "ann", subscription.Settings{Upcast: &none}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resume(t.Context(), "orders", "ann"); err != nil {
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "all are delivered", func() bool { return slices.Equal(got.list(), numbers(1, 3)) })
}
