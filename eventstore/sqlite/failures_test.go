package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

// TestSummariesOfFailuresComeFromIndexes: the summaries of failures, and of the events that decide what became of
// them, are read without the table.
func TestSummariesOfFailuresComeFromIndexes(t *testing.T) {
	s := installed(t, Config{})
	if steps := plan(t, s, selectGivenUp, []any{"[[1,2]]"}); !strings.Contains(steps[1], "USING INDEX event given up (event.sequence=?)") {
		t.Errorf("the plan of failures is %q", steps)
	}
	wantFromIndexes(t, s, selectGivenUp, []any{"[[1,2]]"})
	args := []any{1, "a", 1000, 1000, 512}
	if steps := strings.Join(plan(t, s, selectAllGivenUp, args), "\n"); !strings.Contains(steps, "SEARCH event USING INDEX event given up ((event.sequence,event.id)>(?,?)") || strings.Contains(steps, "B-TREE") {
		t.Errorf("the plan of all failures is %q", steps)
	}
	wantFromIndexes(t, s, selectAllGivenUp, args)
	if !isAllGivenUp(kql.And{kql.All{}, history.GivenUp()}) || isAllGivenUp(kql.And{node(t, "watership.queue: orders"), history.GivenUp()}) {
		t.Error("queries for all failures are not known")
	}
	if !isOfGivenUp(kql.And{node(t, "watership.queue: orders"), history.GivenUp()}) || isOfGivenUp(node(t, "event.action: poisoned or watership.queue: orders")) {
		t.Error("queries for failures are not known")
	}
	var known kql.Or
	for n := range 200 {
		known = append(known, kql.FieldIs("event.id", fmt.Sprint(n)))
	}
	deciding := kql.And{node(t, "event.action: (handled or discarded) and not watership.replay.of: (a or b)"), kql.Not{Node: known}}
	for field, test := range map[string]struct {
		query kql.Node
		want  string
	}{
		"watership.replay.of":   {deciding, "USING INDEX event by watership.replay.of (watership.replay.of=?)"},
		"watership.fingerprint": {kql.And{deciding, node(t, "watership.replay.of: *")}, "USING INDEX replay by watership.fingerprint (<expr>=?)"},
		"watership.message":     {deciding, "USING INDEX event by watership.message (watership.message=?"},
	} {
		statement, args, err := s.lookUpSQL(eventstore.Selection{Query: test.query}, []eventstore.FieldIn{{Field: field, Values: []string{"a", "b"}}})
		if err != nil {
			t.Fatal(err)
		}
		if steps := strings.Join(plan(t, s, statement, args), "\n"); !strings.Contains(steps, test.want) {
			t.Errorf("the plan by %s is %q", field, steps)
		}
		if field == "watership.message" { // most events of copies are left out by their actions
			_, from, _ := strings.Cut(statement, " FROM ")
			statement = "SELECT 1 FROM " + strings.Replace(from, " ORDER BY 2, 1", "", 1)
		}
		wantFromIndexes(t, s, statement, args)
	}
	statement, args, err := s.lookUpSQL(eventstore.Selection{Query: deciding, UpTo: 1000},
		[]eventstore.FieldIn{{Field: "watership.replay.of", Values: []string{"a"}}, {Field: "watership.message", Values: []string{"a"}}})
	if err != nil {
		t.Fatal(err)
	}
	steps := strings.Join(plan(t, s, statement, args), "\n")
	for _, field := range []string{"watership.replay.of", "watership.message"} {
		if !strings.Contains(steps, "SEARCH event USING INDEX event by "+field+" ("+field+"=?") {
			t.Errorf("the plan of both is %s", steps)
		}
	}
}

// TestAllFailuresAreReadInPages: all failures of a selection come once and in their order, as those with another
// condition do, and none that was written since.
func TestAllFailuresAreReadInPages(t *testing.T) {
	s := installed(t, Config{})
	const n = 3*maxSummariesAtOnce + 7
	failure := func(n int) schemas.Document {
		e := event("", n)
		e.Action, e.Queue, e.Sequence = schemas.Poisoned, "orders", int64(1+n/3)
		if n%5 == 0 {
			e = e.Quarantine("too large")
		}
		return schemas.DocumentFormat{}.Document(e)
	}
	var docs []schemas.Document
	for i := range n {
		docs = append(docs, failure(i+1))
	}
	create(t, s, docs...)
	for _, sel := range []eventstore.Selection{
		{},
		{Limit: 1},
		{Limit: maxSummariesAtOnce + 100},
		{UpTo: 300},
		{After: eventstore.Cursor{Sequence: 7}},
		{After: eventstore.Cursor{Sequence: 200, EventID: "test:600"}, UpTo: 400, Limit: 70},
	} {
		all, byPlace := sel, sel
		all.Query, byPlace.Query = history.GivenUp(), kql.And{history.GivenUp(), node(t, "watership.source: *")}
		got, want := summaries(t, s, all), summaries(t, s, byPlace)
		if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
			t.Errorf("%+v: %d failures, %s", sel, len(got), diff)
		}
	}
	count := 0
	for range s.Summaries(t.Context(), eventstore.Selection{Query: history.GivenUp()}) {
		if count++; count == 1 {
			create(t, s, failure(3*n))
		}
	}
	if count != n {
		t.Errorf("%d failures came while another was written, want %d", count, n)
	}
}

func summaries(t *testing.T, s *Store, sel eventstore.Selection) (list []eventstore.EventSummary) {
	t.Helper()
	for summary, err := range s.Summaries(t.Context(), sel) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, summary)
	}
	return list
}
