package kql_test

import (
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

func TestInZone(t *testing.T) {
	fields, err := eventstore.Fields()
	if err != nil {
		t.Fatal(err)
	}
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 30, 1, 2, 3, 0, vienna) // the clocks went forward the day before
	for text, want := range map[string]string{
		"@timestamp >= 2026-01-31":                           `@timestamp >= "2026-01-30T23:00:00.000Z"`,
		"@timestamp > 2026-01-31":                            `@timestamp > "2026-01-31T22:59:59.999Z"`,
		"@timestamp <= 2026-03-29":                           `@timestamp <= "2026-03-29T21:59:59.999Z"`,
		`@timestamp < "2026-07-01T10:00"`:                    `@timestamp < "2026-07-01T08:00:00.000Z"`,
		"@timestamp: 2026-03-29":                             `@timestamp >= "2026-03-28T23:00:00.000Z" and @timestamp <= "2026-03-29T21:59:59.999Z"`,
		"@timestamp >= now-1d/d":                             `@timestamp >= "2026-03-28T23:00:00.000Z"`,
		"not (@timestamp < now/d or message.id: 2026-01-31)": `not (@timestamp < "2026-03-29T22:00:00.000Z" or messaging.message.id: 2026-01-31)`,
		"@timestamp >= now-1d":                               `@timestamp >= "2026-03-29T00:02:03.000Z"`, // 23 hours
		"@timestamp >= now-99999y":                           `@timestamp >= "0000-01-01T00:00:00.000Z"`,
		"event.in* >= 2026":                                  `event.ingested >= "2025-12-31T23:00:00.000Z"`,
		"event.* > 2026":                                     `event.action > 2026 or event.duration > 2026 or event.id > 2026 or event.ingested > "2026-01-01T22:59:59.999Z" or event.outcome > 2026 or event.reason > 2026 or event.sequence > 2026`,
		"@*: 2026-03-29":                                     `@timestamp >= "2026-03-28T23:00:00.000Z" and @timestamp <= "2026-03-29T21:59:59.999Z"`,
		"event.* >= now-1h":                                  "event.* >= now-1h",
		"event.act*: 2026-01-31":                             "event.act*: 2026-01-31",
		"@timestamp >= now-1h":                               "@timestamp >= now-1h",
		`@timestamp >= "2026-01-31T10:00Z"`:                  `@timestamp >= "2026-01-31T10:00Z"`,
		"@timestamp >= 1767225600000":                        "@timestamp >= 1767225600000",
		"@timestamp: *":                                      "@timestamp: *",
		"2026-01-31":                                         "2026-01-31",
	} {
		node, err := kql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if node, err = kql.Resolve(node, fields); err != nil {
			t.Fatal(err)
		}
		if got := kql.InZone(node, fields, now).String(); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}
