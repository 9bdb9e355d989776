package waiting

import (
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/routeconfig"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// The messages of a key come one after the other. The list names the key that stands, and the
// message for which the later ones wait.
func TestFirstsOfAnOrderedRoute(t *testing.T) {
	sys, broker := systemtest.Embedded(t, `WATERSHIP_ROUTES=[{queue: orders, handler: {http: {url: "http://localhost:1/"}}, fairness: {key: "{headers.tenant}", ordered: true}}]`)
	systemtest.Index(t, sys)
	ordered := routeconfig.Routes(sys.Settings(), routeconfig.Files{})
	ordered[0].Policy, ordered[0].Breaker = &retry.Policy{Delays: []time.Duration{time.Hour}}, &retry.Breaker{Messages: -1}
	ordered[0].Handler = func(msg *message.Message) ([]*message.Message, error) {
		if e, _ := schemas.FromContext(msg.Context()); e.Headers["tenant"] == "acme" {
			return nil, errBroken
		}
		return nil, nil
	}
	r := &rig{t: t}
	r.start(pipeline.Config{Connection: rabbitmq.Connection{URL: broker.URL}, Topology: sys.Topology(), Standalone: true, Logger: sys.Logger(), Routes: ordered})
	for id, tenant := range []string{"acme", "acme", "other"} {
		broker.Publish(t, "orders", amqp.Publishing{MessageId: fmt.Sprintf("order-%d", id), Headers: amqp.Table{"tenant": tenant}, DeliveryMode: 2})
	}
	store, err := sys.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var groups []*WaitingGroup
	rabbittest.Eventually(t, "the first order waits", func() bool {
		groups, err = Groups(t.Context(), store, OrdersOf(sys.Settings()), nil, time.Now())
		return err != nil || len(groups) > 0
	})
	if err != nil || len(groups) != 1 {
		t.Fatalf("%d groups: %v", len(groups), err)
	}
	g := groups[0]
	if diff := cmp.Diff([]HeldKey{{Key: "acme", MessageID: "order-0", Due: g.First}}, g.Keys, cmpopts.IgnoreFields(HeldKey{}, "FirstFailed")); diff != "" || g.HeldKeys != 1 {
		t.Errorf("%d keys (-want +got):\n%s", g.HeldKeys, diff)
	}
	if failed := g.Keys[0].FirstFailed; failed.IsZero() || failed.After(g.First.Add(-time.Hour)) {
		t.Errorf("failed %s, due %s", failed, g.First)
	}
	messages, _, err := Select(t.Context(), store, OrdersOf(sys.Settings()), nil, nil, time.Now())
	if err != nil || len(messages) != 1 || messages[0].Key != "acme" || messages[0].Order != First {
		t.Errorf("%+v: %v", messages, err)
	}
}

// Of a route with an ordering, those wait for earlier ones that failed with its class. Of an ordered
// one, those are not the first that have had no attempt.
func TestOrdersOfWaitingMessages(t *testing.T) {
	sys := systemtest.New(t, `WATERSHIP_ROUTES=[
		{queue: orders, handler: {http: {url: "http://localhost:1/"}}, fairness: {key: "{headers.tenant}", ordered: true}},
		{queue: hooks, handler: {http: {url: "http://localhost:1/"}}, fairness: {key: "{headers.tenant}"}},
		{queue: accounts, handler: {http: {url: "http://localhost:1/", statuses: {425: {class: early}}}}, ordering: {class: early, key: "{headers.account}"}}]`)
	orders := OrdersOf(sys.Settings())
	of := func(queue string, attempt, waits int, class string) (string, Order) {
		return orders.find(schemas.Event{
			Envelope: schemas.Envelope{Headers: amqp.Table{"tenant": "acme", "account": "a-1"}},
			State:    schemas.State{Queue: queue, Attempt: attempt, Waits: waits, Failure: schemas.Failure{Class: class}},
		})
	}
	for _, test := range []struct {
		queue          string
		attempt, waits int
		class, key     string
		order          Order
	}{
		{"orders", 1, 0, "", "acme", First},
		{"orders", 0, 1, "", "acme", First},
		{"orders", 0, 0, "", "acme", Later},
		{"hooks", 1, 0, "", "", ""},
		{"accounts", 1, 0, "early", "a-1", Later},
		{"accounts", 1, 0, "other", "a-1", ""},
		{"elsewhere", 1, 0, "", "", ""},
	} {
		if key, order := of(test.queue, test.attempt, test.waits, test.class); key != test.key || order != test.order {
			t.Errorf("%+v: key %q, order %q", test, key, order)
		}
	}
	if diff := cmp.Diff([]string{"orders"}, orders.Queues()); diff != "" {
		t.Error(diff)
	}
}

// A group names the keys that failed first.
func TestKeysOfAGroup(t *testing.T) {
	var g WaitingGroup
	began := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	for i := range 15 {
		g.add(WaitingMessage{MessageID: fmt.Sprint(i), Key: fmt.Sprint(i), Order: First, FirstFailed: began.Add(-time.Duration(i) * time.Minute)})
	}
	g.add(WaitingMessage{Key: "later", Order: Later, FirstFailed: began.Add(-time.Hour)})
	if g.HeldKeys != 15 || len(g.Keys) != 10 || g.Keys[0].Key != "14" || g.Keys[9].Key != "5" {
		t.Errorf("%d keys: %+v", g.HeldKeys, g.Keys)
	}
}
