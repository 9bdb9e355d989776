package messages

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// eachStore runs a test on a System with each of the stores.
func eachStore(t *testing.T, test func(t *testing.T, sys *system.System)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		sys, _ := systemtest.Embedded(t)
		test(t, sys)
	})
	t.Run("elasticsearch", func(t *testing.T) {
		test(t, inElasticsearch(t))
	})
}

// inElasticsearch returns a System with a store in Elasticsearch, and skips tests without one.
func inElasticsearch(t testing.TB) *system.System {
	t.Helper()
	url := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if url == "" {
		t.Skip("WATERSHIP_TEST_STORE_URL is not set")
	}
	sys := systemtest.New(t, "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/", "WATERSHIP_STORE_URL="+url, fmt.Sprint("WATERSHIP_STORE_STREAM=test-map-", time.Now().UnixNano()))
	store, err := sys.Store(t.Context())
	must(t, err)
	must(t, store.Install(t.Context()))
	return sys
}

// traffic makes events of messages.
type traffic struct{ events []schemas.Event }

// publish adds a message of a publisher to an exchange, which a handler published if it is caused by another one.
func (tr *traffic) publish(id, publisher, exchange, cause string) {
	e := schemas.Event{Action: schemas.Published, Envelope: schemas.Envelope{Exchange: exchange, Properties: schemas.Properties{MessageID: id, AppID: publisher}}}
	if cause != "" {
		e.Envelope.Headers = amqp.Table{"causation-id": cause}
	}
	tr.events = append(tr.events, e)
}

// attempt adds an attempt of a queue at a message of an exchange.
func (tr *traffic) attempt(action schemas.Action, id, exchange, queue string, took time.Duration) {
	e := schemas.Event{Action: action, Envelope: schemas.Envelope{Exchange: exchange, Properties: schemas.Properties{MessageID: id}}}
	e.Queue, e.Attempt, e.Duration = queue, 1, took
	if action == schemas.Handled {
		e.TotalTime = 10 * took
	}
	tr.events = append(tr.events, e)
}

// madeTraffic is a shop: orders are billed and mailed, bills are mailed, and two messages come from nobody known.
func madeTraffic() []schemas.Event {
	var tr traffic
	for n := range 20 {
		order, bill := fmt.Sprint("order-", n), fmt.Sprint("bill-", n)
		took := time.Duration(n+1) * 100 * time.Millisecond
		tr.publish(order, "web", "orders", "")
		if n < 12 {
			tr.attempt(schemas.Handled, order, "orders", "mails", took)
		}
		if n%5 == 0 {
			tr.attempt(schemas.RetryScheduled, order, "orders", "billing", took)
		}
		if n == 19 {
			tr.attempt(schemas.Poisoned, order, "orders", "billing", took)
			continue
		}
		tr.attempt(schemas.Handled, order, "orders", "billing", took)
		tr.publish(bill, "billing-service", "bills", order)
		if n < 7 {
			tr.attempt(schemas.Handled, bill, "bills", "mails", 2*took)
		}
	}
	tr.attempt(schemas.Poisoned, "bill-7", "bills", "mails", time.Second)
	for n := range 2 {
		tr.publish(fmt.Sprint("other-", n), "", "orders", "")
	}
	tr.publish("direct", "web", "", "")
	tr.attempt(schemas.Handled, "direct", "", "imports", time.Second)
	return tr.events
}

// mapOf returns the map for a caller, each edge as a line.
func mapOf(ctx context.Context, t *testing.T, sys *system.System, in MapInput) (ServiceMap, []string) {
	t.Helper()
	if in.Limit == 0 {
		in.Limit = 100
	}
	found, err := serviceMaps{sys}.get(ctx, &in)
	must(t, err)
	var lines []string
	for _, e := range found.Body.Edges {
		lines = append(lines, fmt.Sprintf("%s %s > %s %s: %d, %d failed, p95 %.2g", e.From.Kind, e.From.Name, e.To.Kind, e.To.Name, e.Messages, e.Failed, e.P95))
	}
	slices.Sort(lines)
	return found.Body, lines
}

func operator(t *testing.T) context.Context {
	return access.NewContext(t.Context(), access.AsOperator("ann"))
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The map has the ways of all messages with their numbers, and the query of each finds its events.
func TestServiceMap(t *testing.T) {
	eachStore(t, func(t *testing.T, sys *system.System) {
		if empty, edges := mapOf(operator(t), t, sys, MapInput{}); len(edges) > 0 || empty.Edges == nil || empty.Seconds != 0 {
			t.Errorf("an empty record has %+v", empty)
		}
		systemtest.Record(t, sys, madeTraffic()...)
		found, edges := mapOf(operator(t), t, sys, MapInput{})
		wantLines(
			t, edges,
			"service web > exchange orders: 20, 0 failed, p95 0", "service  > exchange orders: 2, 0 failed, p95 0",
			"service web > exchange : 1, 0 failed, p95 0", "service billing-service > exchange bills: 19, 0 failed, p95 0",
			"exchange orders > queue billing: 20, 1 failed, p95 18", "exchange orders > queue mails: 12, 0 failed, p95 11",
			"exchange bills > queue mails: 8, 1 failed, p95 14", "exchange  > queue imports: 1, 0 failed, p95 10",
			"queue billing > service billing-service: 19, 5 failed, p95 1.9", "queue mails > service : 19, 1 failed, p95 1.2", "queue imports > service : 1, 0 failed, p95 1",
		)
		for _, e := range found.Edges {
			want := e.Messages
			if e.To.Kind == MapServices {
				want += e.Failed
			}
			count, err := operations{System: sys}.countEvents(operator(t), &CountInput{eventfilter.QueryFilter{Filter: eventfilter.Filter{Query: e.Query}}})
			must(t, err)
			if count.Body.Count != want {
				t.Errorf("%s finds %d events, want %d", e.Query, count.Body.Count, want)
			}
			if rate := float64(e.Messages) / found.Seconds; e.Rate != rate {
				t.Errorf("%d messages in %v s are %v a second, want %v", e.Messages, found.Seconds, e.Rate, rate)
			}
		}
		few, edges := mapOf(operator(t), t, sys, MapInput{Limit: 2})
		if len(edges) != 2 || few.OmittedEdges != 9 || few.Edges[0].Messages != 20 || few.Edges[1].Messages != 20 {
			t.Errorf("two edges of the map: %+v", few)
		}
	})
}

// A query, a period and the limits of the caller leave out what they do not match.
func TestPartOfAServiceMap(t *testing.T) {
	eachStore(t, func(t *testing.T, sys *system.System) {
		systemtest.Record(t, sys, madeTraffic()...)
		_, edges := mapOf(operator(t), t, sys, MapInput{QueryFilter: eventfilter.QueryFilter{Filter: eventfilter.Filter{Query: "destination.name: bills"}}})
		wantLines(
			t, edges,
			"service billing-service > exchange bills: 19, 0 failed, p95 0", "exchange bills > queue mails: 8, 1 failed, p95 14", "queue mails > service : 7, 1 failed, p95 1.4",
		)
		limited := access.NewContext(t.Context(), access.Identity{Name: "ann", Role: access.Viewer, Queues: []string{"billing"}, Exchanges: []string{"bills"}})
		_, edges = mapOf(limited, t, sys, MapInput{})
		wantLines(
			t, edges,
			"service billing-service > exchange bills: 19, 0 failed, p95 0", "exchange orders > queue billing: 20, 1 failed, p95 18",
			"queue billing > service billing-service: 19, 5 failed, p95 1.9",
		)
		period, edges := mapOf(operator(t), t, sys, MapInput{QueryFilter: eventfilter.QueryFilter{Filter: eventfilter.Filter{From: "2026-01-01T00:00:00Z", To: "2026-01-01T01:00:00Z"}}})
		if len(edges) > 0 || period.Seconds != 3600 {
			t.Errorf("an hour before has %+v", period)
		}
		_, err := serviceMaps{sys}.get(operator(t), &MapInput{QueryFilter: eventfilter.QueryFilter{Filter: eventfilter.Filter{Query: "quue: orders"}}})
		if p := problem.New(t.Context(), err); err == nil || p.Status != 400 {
			t.Errorf("a query with an unknown field: %v", err)
		}
	})
}

// A message that several queues have handled does not name their service, and of several publishers the most
// frequent one counts.
func TestServicesOfQueues(t *testing.T) {
	eachStore(t, func(t *testing.T, sys *system.System) {
		var tr traffic
		for n := range 5 {
			id := fmt.Sprint("both-", n)
			tr.attempt(schemas.Handled, id, "orders", "mails", 0)
			tr.attempt(schemas.Handled, id, "orders", "billing", 0)
			tr.publish(fmt.Sprint("after-", n), "billing-service", "bills", id)
		}
		for n := range 3 {
			id := fmt.Sprint("one-", n)
			tr.attempt(schemas.Handled, id, "bills", "ledger", 0)
			tr.publish(fmt.Sprint("after-one-", n), []string{"old-books", "books", "books"}[n], "books", id)
		}
		systemtest.Record(t, sys, tr.events...)
		found, _ := mapOf(operator(t), t, sys, MapInput{})
		services := map[string]string{}
		for _, e := range found.Edges {
			if e.To.Kind == MapServices {
				services[e.From.Name] = e.To.Name
			}
		}
		if want := map[string]string{"mails": "", "billing": "", "ledger": "books"}; fmt.Sprint(services) != fmt.Sprint(want) {
			t.Errorf("services are %v, want %v", services, want)
		}
	})
}

// Further exchanges are counted, and the queries of edges with any names can be read.
func TestServiceMapOfManyExchanges(t *testing.T) {
	eachStore(t, func(t *testing.T, sys *system.System) {
		var tr traffic
		for n := range 25 {
			name := fmt.Sprintf(`ex "%d" (*)`, n)
			tr.publish(fmt.Sprint("m-", n), "", name, "")
			if n < 3 {
				tr.publish(fmt.Sprint("m-", n, "-again"), "", name, "")
			}
		}
		systemtest.Record(t, sys, tr.events...)
		found, edges := mapOf(operator(t), t, sys, MapInput{})
		if len(edges) != 20 || found.OmittedEvents != 5 || found.Edges[0].Messages != 2 {
			t.Errorf("%d edges, %d events left out: %q", len(edges), found.OmittedEvents, edges)
		}
		for _, e := range found.Edges {
			if _, err := kql.Parse(e.Query); err != nil {
				t.Errorf("%s: %v", e.Query, err)
			}
		}
	})
}
