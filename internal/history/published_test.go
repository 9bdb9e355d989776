package history_test

import (
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
)

func TestPublishedByDefault(t *testing.T) {
	fields, err := eventstore.Fields()
	if err != nil {
		t.Fatal(err)
	}
	const published = "(event.action: \"published\" or watership.quarantined_action: \"published\")"
	for query, want := range map[string]string{
		"":                               `event.action: "published" or watership.quarantined_action: "published"`,
		"watership.queue: orders":        published + " and watership.queue: orders",
		"action: poisoned or queue: a":   "event.action: poisoned or watership.queue: a",
		"not event.action: handled":      "not event.action: handled",
		"quarantined_action: poisoned":   "watership.quarantined_action: poisoned",
		"event.action: *":                "event.action: *",
		"body.text: \"event.action: x\"": published + ` and body.text: "event.action: x"`,
	} {
		node, err := kql.Parse(query)
		if err == nil {
			node, err = kql.Resolve(node, fields)
		}
		if err != nil {
			t.Fatal(query, err)
		}
		if got := history.PublishedByDefault(node).String(); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
}
