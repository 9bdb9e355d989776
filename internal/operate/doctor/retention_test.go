package doctor

import (
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

func TestRulesOfRetentionWithoutMessages(t *testing.T) {
	s := newSetUpSite(t)
	s.Settings.Store.Retention.Rules = eventstore.KeepRules{{Exchange: "shop", Key: "order.#"}, {Exchange: "shpo"}, {Key: "#.order.paid.#"}, {Stream: "order-*", Labels: map[string]string{"tenant": "acme"}}}
	idle := func() []Finding { return of("templates", Run(t.Context(), s.Config)) }
	if found := idle(); len(found) != 1 || found[0].Verdict != OK {
		t.Errorf("without a message: %+v", found)
	}
	e := schemas.Event{Action: schemas.Published}
	e.Time = time.Now()
	e.Envelope = schemas.Envelope{Exchange: "shop", RoutingKey: "order.paid", Headers: map[string]any{"tenant": "acme"}}
	e.Stream.ID = "order-1"
	systemtest.Record(t, s.system, e)
	found := idle()
	if len(found) != 2 {
		t.Errorf("with messages of three rules: %+v", found)
	}
	want(t, found[1:], Warning, "rule 2 of store.retention.rules matches no message of the last day", "correct its exchange")
}

func TestTheShortestPeriodThatConcernsAQuery(t *testing.T) {
	const day = 24 * time.Hour
	retention := config.Retention{Traffic: 30 * day, Failures: 90 * day, Rules: eventstore.KeepRules{{Exchange: "ledger"}, {Exchange: "log", Keep: day}}}
	of := func(exchange string) kql.Node {
		return kql.And{kql.FieldIs("event.action", "published"), kql.FieldIs("messaging.destination.name", exchange)}
	}
	for _, test := range []struct {
		query kql.Node
		want  time.Duration
	}{{nil, day}, {of("ledger"), 0}, {of("log"), day}, {of("shop"), 30 * day}, {kql.FieldIs("event.action", "poisoned"), 90 * day}} {
		if got := shortestPeriod(retention, test.query); got != test.want {
			t.Errorf("%v: %s, want %s", test.query, got, test.want)
		}
	}
}

// A subscription is named before a rule removes what it has not delivered, and not if a rule keeps that for ever.
func TestASubscriptionBehindARuleOfRetention(t *testing.T) {
	s := newSetUpSite(t)
	e := schemas.Event{Action: schemas.Published}
	e.Envelope = schemas.Envelope{Exchange: "shop", RoutingKey: "order.paid"}
	systemtest.Record(t, s.system, e)
	all, err := s.system.Subscriptions(t.Context())
	must(t, err)
	orders := subscription.Subscription{Name: "billing", Query: "event.action: published and destination.name: shop", Target: subscription.Target{Kind: subscription.ToQueue, Queue: "q"}}
	_, err = all.Create(t.Context(), orders, subscription.From{})
	must(t, err)
	behind := func(keep time.Duration) []Finding {
		s.Settings.Store.Retention = config.Retention{Traffic: 30 * 24 * time.Hour, Rules: eventstore.KeepRules{{Exchange: "shop", Keep: keep}}}
		return of("subscriptions", Run(t.Context(), s.Config))
	}
	want(t, behind(24*time.Hour), Warning, "retention removes events that subscription billing has not delivered: the oldest one is from ", "keep events for longer (store.retention), or let it deliver")
	if found := behind(0); len(found) != 1 || found[0].Verdict != OK {
		t.Errorf("of a rule that keeps them for ever: %+v", found)
	}
}
