package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
)

// TestSummariesOfFailuresComeFromIndexes: the summaries of failures, and of the events that decide what became of
// them, are read without the table.
func TestSummariesOfFailuresComeFromIndexes(t *testing.T) {
	s := installed(t, Config{})
	if steps := plan(t, s, selectGivenUp, []any{"[[1,2]]"}); !strings.Contains(steps[1], "USING INDEX event given up (event.sequence=?)") {
		t.Errorf("the plan of failures is %q", steps)
	}
	wantFromIndexes(t, s, selectGivenUp, []any{"[[1,2]]"})
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
