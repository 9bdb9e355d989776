package replayer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// A query means the same here as at the command line, where names are short; a misspelt name selects
// nothing to send without notice unless it is an error.
func TestPlansResolveTheirQueries(t *testing.T) {
	f := newFixture(t)
	f.storeEvents(f.published(1))
	plan := f.plan(f.job("action: published and @timestamp >= now-1h"))
	if plan.Matched != 1 || !strings.Contains(plan.Job.Query, "event.action: published") || !strings.Contains(plan.Job.Query, "||-1h") {
		t.Errorf("%d of %s", plan.Matched, plan.Job.Query)
	}
	if again := f.plan(plan.Job); again.Job.Query != plan.Job.Query || again.Matched != 1 {
		t.Errorf("%d of %s", again.Matched, again.Job.Query)
	}
	var unknown *kql.FieldError
	if _, err := f.Plan(t.Context(), f.job("acton: published")); !errors.As(err, &unknown) || unknown.Field != "acton" {
		t.Error(err)
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
		if plan := f.plan(f.job(kql.AbsoluteTimes(node, fields, time.Now().Add(time.Minute)).String())); plan.Matched != want {
			t.Errorf("%s finds %d, want %d", text, plan.Matched, want)
		}
	}
}
