package replayer

import (
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

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
		if plan := f.plan(f.job(kql.AbsoluteTimes(node, fields, time.Now().Add(time.Minute)).String())); plan.Matched != want {
			t.Errorf("%s finds %d, want %d", text, plan.Matched, want)
		}
	}
}
