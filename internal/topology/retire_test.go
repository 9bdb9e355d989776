package topology

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// retiring returns the retirement of a prefix that has a queue of due messages. The management API lists
// it without messages and consumers, as it was some seconds ago, and the broker's first answers about it
// are those of a quorum queue with a silent leader.
func retiring(t *testing.T, b rabbittest.Broker) Retirement {
	t.Helper()
	former := schemas.Topology{Prefix: rabbittest.Name(t)}
	management := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `[{"name":%q,"type":"quorum"}]`, former.Due())
	}))
	t.Cleanup(management.Close)
	lists, err := rabbit.NewManagement(management.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Channel(t).QueueDeclare(former.Due(), true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	b.DeleteQueue(t, former.Due())
	silent := 0
	conn := connection(t, rabbittest.Broker{Address: rabbittest.Address{URL: b.SilentQueues(t, func(string) bool {
		silent++
		return silent <= 3
	})}})
	return Retirement{Migration: Migration{Conn: conn, Management: lists, VHost: "/"}, Former: former}
}

func TestSilentQueueOfARetiredPrefixIsNotEmpty(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := retiring(t, b)
		publishKey(t, b, "", r.Former.Due())
		rabbittest.Eventually(t, "the message", func() bool { return b.Len(t, r.Former.Due()) == 1 })
		if left, err := r.Left(t.Context()); err != nil || left[r.Former.Due()] != 1 {
			t.Errorf("%v is left: %v", left, err)
		}
	})
}

func TestSilentQueueOfARetiredPrefixIsInUse(t *testing.T) {
	t.Parallel() // most of it is waiting
	b := rabbittest.Embedded(t)
	r := retiring(t, b)
	if _, err := b.Channel(t).Consume(r.Former.Due(), "", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), r.Former.Due()+" has a consumer") {
		t.Errorf("got %v", err)
	}
}

// Holds of receivers are taken over, as pauses of routes are: both name the prefix in their keys.
func TestHoldsOfARetiredPrefix(t *testing.T) {
	b := rabbittest.Embedded(t)
	former, present := schemas.Topology{Prefix: "former"}, schemas.Topology{Prefix: "present"}
	ch := b.Channel(t)
	if err := ch.ExchangeDeclare(present.Pauses(), "direct", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(present.Paused(), true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	management := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var bound []string
		if strings.Contains(r.URL.Path, former.Pauses()) {
			for _, key := range []string{former.Paused(), former.Paused() + ".d1", "orders"} {
				bound = append(bound, fmt.Sprintf(`{"destination_type":"queue","routing_key":%q}`, key))
			}
		}
		_, _ = fmt.Fprintf(w, "[%s]", strings.Join(bound, ","))
	}))
	t.Cleanup(management.Close)
	lists, err := rabbit.NewManagement(management.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn := connection(t, b)
	r := Retirement{
		Migration: Migration{Conn: conn, Management: lists, VHost: "/", Topology: present}, Former: former,
		Reconciler: Reconciler{Conn: conn, Config: Config{Topology: present}},
	}
	if err := r.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{present.Paused(), present.Paused() + ".d1", "orders"} {
		publishKey(t, b, present.Pauses(), key)
	}
	rabbittest.Eventually(t, "three bindings", func() bool { return b.Len(t, present.Paused()) == 3 })
}

// A due message that an operator took out of its delay queue is dead-lettered as rejected, and retiring takes
// that from it: the operator's decision about it is still looked up.
func TestDecisionsOfARetiredPrefix(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		former, present, conn := named(t, b, Quorum), named(t, b, Quorum), connection(t, b)
		present.Delays = nil
		for _, cfg := range []Config{former, present} {
			if err := Declare(t.Context(), conn, cfg); err != nil {
				t.Fatal(err)
			}
		}
		keys, err := schemas.ParseStateKeys([]byte(strings.Repeat("k", 64)))
		if err != nil {
			t.Fatal(err)
		}
		signer := wire.Verifier{Topology: former.Topology, Keys: keys}
		wait := func(body string, delay time.Duration) {
			e := schemas.Envelope{Exchange: "shop", RoutingKey: "order", Body: []byte(body)}
			state := schemas.State{Fingerprint: e.Fingerprint(), Message: body, Queue: "orders", Attempt: 1, Time: time.Now(), Delay: delay}
			key := wire.DelaysOf(former.Topology).Queue(delay)
			p := signer.Sign(former.Direct(), key, wire.DefaultFrameMax.Wrap(e, state))
			if err := b.Channel(t).Publish(former.Direct(), key, true, false, p); err != nil {
				t.Fatal(err)
			}
		}
		wait("expired", former.Delays[0])
		wait("taken", former.Delays[1])
		operator := b.Channel(t)
		rabbittest.Eventually(t, "one is taken", func() bool {
			d, there, err := operator.Get(wire.DelaysOf(former.Topology).Queue(former.Delays[1]), false)
			return err == nil && there && d.Reject(false) == nil
		})
		due := former.Topology.Due()
		rabbittest.Eventually(t, "both are due", func() bool { return b.Len(t, due) == 2 })

		management := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `[{"name":%q,"type":"quorum"}]`, due)
		}))
		t.Cleanup(management.Close)
		lists, err := rabbit.NewManagement(management.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
		t.Cleanup(func() { _ = publisher.Close() })
		b.DeleteQueue(t, wire.DelaysOf(present.Topology).Queue(time.Second))
		r := Retirement{
			Migration: Migration{Conn: conn, Management: lists, VHost: "/", Topology: present.Topology}, Former: former.Topology,
			Reconciler: Reconciler{Conn: conn, Config: present}, Publisher: publisher, StateKeys: keys,
		}
		if counts, err := r.Move(t.Context()); err != nil || counts[due] != 2 {
			t.Fatalf("%v, %v", counts, err)
		}
		reader := wire.Verifier{Topology: present.Topology, Keys: keys}
		for _, d := range b.Take(t, present.Topology.Due(), 2) {
			verified, found, err := reader.VerifyDue(schemas.FromDelivery(d))
			if body := string(verified.Envelope.Body); err != nil || !found || verified.Mismatch || verified.State.Undecided != (body == "taken") || verified.State.Message != body {
				t.Errorf("%q: %+v, %v, %v", body, verified.State, found, err)
			}
		}
	})
}
