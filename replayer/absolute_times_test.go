package replayer

import (
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

func TestAbsoluteTimes(t *testing.T) {
	fields, err := eventstore.Fields()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.FixedZone("", 3600))
	for text, want := range map[string]string{
		"@timestamp >= now-1h":                       `@timestamp >= "2026-05-04T02:02:01.000Z||-1h"`,
		"not (@timestamp < now or action: poisoned)": `not (@timestamp < "2026-05-04T02:02:01.000Z" or event.action: poisoned)`,
		"event.ingested: now/d and message.id: now":  `event.ingested: "2026-05-04T02:02:01.000Z||/d" and messaging.message.id: now`,
		`@timestamp >= "2026-01-01"`:                 `@timestamp >= "2026-01-01"`,
		"@time* > now-1d/d":                          `@time* > "2026-05-04T02:02:01.000Z||-1d/d"`,
		"now":                                        "now",
	} {
		node, err := kql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if node, err = kql.Resolve(node, fields); err != nil {
			t.Fatal(err)
		}
		fixed := AbsoluteTimes(node, fields, now).String()
		if fixed != want {
			t.Errorf("%s became %s, want %s", text, fixed, want)
		}
		again, err := kql.Parse(fixed)
		if err != nil {
			t.Fatalf("%s: %v", fixed, err)
		}
		if _, err := kql.Resolve(again, fields); err != nil {
			t.Errorf("%s: %v", fixed, err)
		}
	}
}

// TestAbsoluteTimesSelectTheSame sends the rewritten query to the store.
func TestAbsoluteTimesSelectTheSame(t *testing.T) {
	f := newFixture(t)
	f.storeEvents(f.published(1))
	fields, err := eventstore.Fields()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"@timestamp >= now-1h": 1, "@timestamp <= now-1h": 0, "@timestamp >= now-1d/d": 1} {
		node, err := kql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if plan := f.plan(f.job(AbsoluteTimes(node, fields, time.Now().Add(time.Minute)).String())); plan.Total != want {
			t.Errorf("%s finds %d, want %d", text, plan.Total, want)
		}
	}
}
