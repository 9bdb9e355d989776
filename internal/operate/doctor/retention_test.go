package doctor

import (
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
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
