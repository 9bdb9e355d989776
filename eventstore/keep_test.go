package eventstore_test

import (
	"math"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

const day = 24 * time.Hour

var (
	ofShop   = eventstore.KeepRule{Exchange: "shop", Key: "order.#", Keep: 0}
	ofStream = eventstore.KeepRule{Stream: "order-*", Keep: 730 * day}
	ofTenant = eventstore.KeepRule{Labels: map[string]string{"tenant": "acme"}, Keep: 36 * time.Hour}
	rules    = eventstore.KeepRules{ofShop, ofStream, ofTenant}
)

func TestStreamOf(t *testing.T) {
	for _, test := range []struct {
		exchange, key, stream, tenant string
		action                        schemas.Action
		want                          schemas.Stream
	}{
		{"shop", "order", "", "", schemas.Published, "traffic@forever"},
		{"shop", "order.paid", "order-1", "acme", schemas.Published, "traffic@forever"},
		{"shop", "orders", "", "", schemas.Published, "traffic"},
		{"shop", "customer", "order-1", "", schemas.Published, "traffic@730d"},
		{"log", "order", "invoice-1", "", schemas.Published, "traffic"},
		{"log", "order", "", "acme", schemas.Published, "traffic@36h"},
		{"log", "order", "", "umbrella", schemas.Published, "traffic"},
		{"shop", "order", "order-1", "acme", schemas.Handled, "traffic"},
		{"shop", "order", "order-1", "acme", schemas.Poisoned, "failures"},
	} {
		e := schemas.Event{Action: test.action}
		e.Envelope = schemas.Envelope{Exchange: test.exchange, RoutingKey: test.key}
		if test.tenant != "" {
			e.Envelope.Headers = amqp.Table{"tenant": test.tenant}
		}
		e.Stream.ID = test.stream
		if got := rules.StreamOf(e); got != test.want {
			t.Errorf("%+v is in %s", test, got)
		}
	}
}

// What a query cannot match by the rules is left out, and nothing in doubt.
func TestStreamsThatCanHoldWhatAQueryMatches(t *testing.T) {
	const all = "traffic traffic@forever traffic@730d traffic@36h"
	published := func(query string) string { return "event.action: published and (" + query + ")" }
	for query, want := range map[string]string{
		"event.action: *":                                                                            all,
		"event.action: handled":                                                                      "traffic",
		"event.action: poisoned":                                                                     "",
		published("routing_key: *"):                                                                  all,
		published("routing_key: a.*"):                                                                "traffic traffic@730d traffic@36h",
		published("routing_key: order"):                                                              all,
		published("destination.name: shop and routing_key: order.*"):                                 "traffic@forever",
		published("destination.name: shop and routing_key: order*"):                                  all,
		published("destination.name: shop and routing_key: (order.paid or order)"):                   "traffic@forever",
		published("destination.name: shop and routing_key: (order.paid or x)"):                       all,
		"destination.name: shop and routing_key: order.paid":                                         "traffic traffic@forever traffic@730d traffic@36h",
		published("destination.name: log"):                                                           "traffic traffic@730d traffic@36h",
		published("destination.name: log and watership.stream.id: order-7"):                          "traffic@730d",
		published("destination.name: log and watership.stream.id: order-*"):                          "traffic@730d",
		published("destination.name: log and watership.stream.id: invoice-*"):                        "traffic traffic@36h",
		published("destination.name: log and watership.stream.id: o*"):                               "traffic traffic@730d traffic@36h",
		published("destination.name: log and not watership.stream.id: order-7"):                      "traffic traffic@730d traffic@36h",
		published("destination.name: log and headers.tenant: acme"):                                  "traffic traffic@730d traffic@36h",
		published("destination.name: log and labels.tenant: acme and watership.stream.id: invoice"):  "traffic@36h",
		published("destination.name: log and labels.tenant: other and watership.stream.id: invoice"): "traffic",
	} {
		fields, err := eventstore.Fields()
		if err != nil {
			t.Fatal(err)
		}
		node, err := kql.Parse(query)
		if err == nil {
			node, err = kql.Resolve(node, fields)
		}
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		got := ""
		for _, stream := range []schemas.Stream{"traffic", "traffic@forever", "traffic@730d", "traffic@36h"} {
			if rules.CanHold(stream, node) {
				got += " " + string(stream)
			}
		}
		if want != "" {
			want = " " + want
		}
		if got != want {
			t.Errorf("%s: %q can have its events, want %q", query, got, want)
		}
	}
}

// Events that were recorded before the rules were applied can be in any stream.
func TestRemovedBeforeTheRules(t *testing.T) {
	ofLedger := kql.And{kql.FieldIs("event.action", "published"), kql.FieldIs("messaging.destination.name", "ledger")}
	removed := eventstore.Removed{
		Marks: eventstore.Marks{schemas.Traffic: 500, schemas.Traffic.For(0): 20},
		Kept:  eventstore.KeptBy{Rules: eventstore.KeepRules{{Exchange: "ledger"}}},
	}
	for since, want := range map[int64]int64{0: 20, 300: 300, math.MaxInt64: 500} {
		removed.Kept.Since = since
		if got := removed.UpTo(ofLedger); got != want {
			t.Errorf("since %d: removed up to %d, want %d", since, got, want)
		}
		if got := removed.UpTo(nil); got != 500 {
			t.Errorf("of every event: removed up to %d", got)
		}
	}
}

func TestPeriodsOfStreams(t *testing.T) {
	for stream, want := range map[schemas.Stream]struct {
		period time.Duration
		isOwn  bool
	}{
		"traffic": {}, "failures": {}, "traffic@": {}, "traffic@0d": {}, "traffic@24h": {}, "traffic@d": {}, "failures@2d": {}, "failures@forever": {}, "traffic@-1d": {},
		"traffic@forever": {0, true}, "traffic@2d": {2 * day, true}, "traffic@25h": {25 * time.Hour, true},
	} {
		if period, isOwn := stream.Period(); isOwn != want.isOwn || isOwn && period != want.period {
			t.Errorf("%s: %s, %t", stream, period, isOwn)
		}
		if valid := stream.IsValid(); valid != (want.isOwn || stream == schemas.Traffic || stream == schemas.Failures) {
			t.Errorf("%s is valid: %t", stream, valid)
		}
	}
	if got := schemas.Traffic.For(time.Minute); got != "traffic@1h" {
		t.Errorf("a minute is kept in %s", got)
	}
}
