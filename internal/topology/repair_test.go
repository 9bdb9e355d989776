package topology

import (
	"context"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// A queue that a login may not declare is looked for again and again. Its loss is recorded once, when it
// is declared.
func TestLossOfAQueueIsRecordedOnceItIsDeclared(t *testing.T) {
	b := rabbittest.NewestServer(t)
	cfg := named(t, b, Quorum)
	declareTwice(t, b, cfg)
	refused := rabbittest.Rights{Configure: `^(?!` + cfg.Index() + `$)`, Write: ".*", Read: ".*"}
	limited := b.Login(t, refused)
	var lost []string
	reconciler := Reconciler{Conn: connection(t, limited), Config: cfg, Lost: func(_ context.Context, queue string) error {
		lost = append(lost, queue)
		return nil
	}}
	if _, err := b.Channel(t).QueueDelete(cfg.Index(), false, false, false); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := reconciler.Repair(t.Context()); !refusedWith(err, amqp.AccessRefused) {
			t.Errorf("the repair ends with %v", err)
		}
	}
	if len(lost) > 0 {
		t.Errorf("the losses of %v are recorded, and none of them was declared", lost)
	}
	b.Grant(t, limited, rabbittest.Rights{Configure: ".*", Write: ".*", Read: ".*"})
	rabbittest.Eventually(t, "the new rights", func() bool { return reconciler.Repair(t.Context()) == nil })
	if err := reconciler.Repair(t.Context()); err != nil || !slices.Equal(lost, []string{cfg.Index()}) {
		t.Errorf("the losses of %v are recorded: %v", lost, err)
	}
}

// Consumers look for their own queues, in any order. The event of the first one has to reach the queue of
// events, although that was deleted with it.
func TestEventsHaveAQueueBeforeALossIsRecorded(t *testing.T) {
	for name, deleted := range map[string]func(*testing.T, Config, *amqp.Channel){
		"queues": func(*testing.T, Config, *amqp.Channel) {},
		"queues and the exchange of events": func(t *testing.T, cfg Config, ch *amqp.Channel) {
			if err := ch.ExchangeDelete(cfg.Events(), false, false); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
				cfg := named(t, b, Quorum)
				declareTwice(t, b, cfg)
				conn := connection(t, b)
				publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
				t.Cleanup(func() { publisher.Close() })
				var logged rabbittest.Log
				reconciler := Reconciler{
					Conn: conn, Config: cfg, Logger: logged.Logger(), Turns: make(chan struct{}, 1),
					Lost: Losses{Verifier: &wire.Verifier{Topology: cfg.Topology}, Publisher: publisher}.Record,
				}
				ch := b.Channel(t)
				for _, q := range cfg.queues() {
					if _, err := ch.QueueDelete(q.name, false, false, false); err != nil {
						t.Fatal(err)
					}
				}
				deleted(t, cfg, ch)
				for _, queue := range []string{cfg.Retry(), cfg.Log(), cfg.Poison()} {
					if err := reconciler.PrepareQueue(t.Context(), queue); err != nil {
						t.Fatal(err)
					}
				}
				var lost []string
				for _, d := range b.Take(t, cfg.Log(), 3) {
					_, state, err := wire.Unwrap(schemas.FromDelivery(d))
					if err != nil {
						t.Fatal(err)
					}
					lost = append(lost, state.Queue)
				}
				if !slices.Equal(lost, []string{cfg.Log(), cfg.Retry(), cfg.Poison()}) || b.Len(t, cfg.Log()) > 0 {
					t.Errorf("events of %v are recorded:\n%s", lost, logged.String())
				}
			})
		})
	}
}

// The consumer of an ordered route needs the queue of its places, and learns at once that it was deleted.
func TestPreparingAnOrderedRouteDeclaresItsPlaces(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		cfg := named(t, b, Quorum)
		_, queue := service(t, b, &cfg)
		cfg.Routes[0].Ordered = true
		b.DeleteQueue(t, cfg.Places(queue))
		declareTwice(t, b, cfg)
		var lost []string
		reconciler := Reconciler{Conn: connection(t, b), Config: cfg, Lost: func(_ context.Context, queue string) error {
			lost = append(lost, queue)
			return nil
		}}
		if _, err := b.Channel(t).QueueDelete(cfg.Places(queue), false, false, false); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := reconciler.PrepareQueue(t.Context(), queue); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(lost, []string{cfg.Places(queue)}) {
			t.Errorf("the losses of %v are recorded", lost)
		}
		publishKey(t, b, cfg.Direct(), cfg.Places(queue))
		b.Take(t, cfg.Places(queue), 1)
	})
}
