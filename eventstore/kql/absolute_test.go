package kql_test

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
		fixed := kql.AbsoluteTimes(node, fields, now).String()
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
