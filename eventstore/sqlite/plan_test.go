package sqlite

import (
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
)

// TestSearchesUseIndexes: no search of the benchmark scans a whole table, so that its time
// depends on the number of results only.
func TestSearchesUseIndexes(t *testing.T) {
	s := installed(t, Config{})
	whole := regexp.MustCompile(`^SCAN (event|term|document)$`)
	for _, test := range searches {
		node, err := kql.Parse(test.query)
		if err != nil {
			t.Fatal(err)
		}
		filter, err := s.filter("testing", eventstore.Selection{Query: node})
		if err != nil {
			t.Fatal(err)
		}
		for statement, args := range map[string][]any{
			"SELECT event.n FROM event WHERE " + filter.sql + " ORDER BY " + orderBy(eventstore.NewestFirst) + " LIMIT ?": append(slices.Clone(filter.args), test.limit),
			"SELECT event.n FROM event WHERE " + filter.sql + " ORDER BY " + orderBy(eventstore.BySequence):               filter.args,
			"SELECT count(*) FROM event WHERE " + filter.sql:                                                              filter.args,
		} {
			for _, step := range plan(t, s, statement, args) {
				if whole.MatchString(step) {
					t.Errorf("%s: %s, for %s", test.name, step, statement)
				}
			}
		}
	}
}

// TestFailuresUseTheirIndexes: the candidates of unresolved failures come from their own index,
// and replays are found without the other events of the same message.
func TestFailuresUseTheirIndexes(t *testing.T) {
	s := installed(t, Config{})
	replays := []eventstore.FieldIn{{Field: "watership.fingerprint", Values: []string{"a", "b"}}}
	for want, test := range map[string]struct {
		query  kql.Node
		either []eventstore.FieldIn
	}{
		"event given up":                  {query: kql.And{node(t, `@timestamp >= "2026-05-14"`), history.GivenUp()}},
		"replay by watership.fingerprint": {query: node(t, "event.action: (handled or replayed) and watership.replay.of: *"), either: replays},
	} {
		filter, err := s.filter("testing", eventstore.Selection{Query: test.query})
		if err != nil {
			t.Fatal(err)
		}
		filter = allOf(append(s.anyFilter(test.either), filter))
		steps := plan(t, s, "SELECT event.n FROM event WHERE "+filter.sql+" ORDER BY "+orderBy(eventstore.BySequence), filter.args)
		if !strings.Contains(steps[0], "USING INDEX "+want) {
			t.Errorf("the plan is %q, want one with the index %s", steps, want)
		}
	}
}

// TestFailuresAreFoundInTheirIndex: no column of an event is read to find all that were given up, in their order.
func TestFailuresAreFoundInTheirIndex(t *testing.T) {
	s := installed(t, Config{})
	filter, err := s.filter("testing", eventstore.Selection{Query: history.GivenUp()})
	if err != nil {
		t.Fatal(err)
	}
	wantFromIndexes(t, s, "SELECT event.n FROM event WHERE "+filter.sql+" ORDER BY "+orderBy(eventstore.BySequence), filter.args)
}

// wantFromIndexes checks that a statement reads no column from a table.
func wantFromIndexes(t *testing.T, s *Store, statement string, args []any) {
	t.Helper()
	rows, err := s.readers.QueryContext(t.Context(), "EXPLAIN "+statement, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	opened, read := map[int]string{}, map[int]bool{} // cursors
	for rows.Next() {
		var address, cursor, p2, p3 int
		var step string
		var p4, p5, comment sql.NullString
		if err := rows.Scan(&address, &step, &cursor, &p2, &p3, &p4, &p5, &comment); err != nil {
			t.Fatal(err)
		}
		switch step {
		case "OpenRead":
			opened[cursor] = p4.String
		case "Column":
			read[cursor] = true
		}
	}
	for cursor := range read {
		if of, isStored := opened[cursor]; isStored && !strings.HasPrefix(of, "k(") { // the keys of an index
			t.Errorf("columns are read from a table of %s columns by %s", of, statement)
		}
	}
	if err := rows.Err(); err != nil || len(read) == 0 {
		t.Errorf("the statement reads %v, %v", read, err)
	}
}

// TestStreamsUseTheirIndex: the events of a stream come from its index, in order.
func TestStreamsUseTheirIndex(t *testing.T) {
	s := installed(t, Config{})
	filter, err := s.filter("testing", eventstore.Selection{Query: history.StreamQuery("order-42"), UpTo: 1000})
	if err != nil {
		t.Fatal(err)
	}
	steps := plan(t, s, "SELECT event.n FROM event WHERE "+filter.sql+" ORDER BY "+orderBy(eventstore.BySequence)+" LIMIT 10", filter.args)
	if !strings.Contains(steps[0], "USING INDEX event by watership.stream.id (watership.stream.id=? AND event.sequence<?)") {
		t.Errorf("the plan is %q", steps)
	}
}

// TestNextEventsUseTheirSequences: a reader of new events reads no others, although all of them match its query.
func TestNextEventsUseTheirSequences(t *testing.T) {
	s := installed(t, Config{})
	statement, args := nextSQL(eventstore.Selection{Order: eventstore.BySequence, After: eventstore.Cursor{Sequence: 5, EventID: "a"}, UpTo: 10})
	if steps := plan(t, s, statement, args); len(steps) != 1 || !strings.Contains(steps[0], "COVERING INDEX event by sequence (event.sequence>? AND event.sequence<?)") {
		t.Errorf("the plan is %q", steps)
	}
}

// TestCountsUpToASequenceUseTheOtherIndex: nearly all events are up to the sequence of a plan, and few are of a replay.
func TestCountsUpToASequenceUseTheOtherIndex(t *testing.T) {
	s := installed(t, Config{})
	sel := eventstore.Selection{Query: node(t, "watership.replay.of: *")}
	filter, err := s.filter("testing", sel)
	if err != nil {
		t.Fatal(err)
	}
	sel.UpTo = 10
	filter = allOf([]condition{filter, countedUpTo(sel)})
	if steps := plan(t, s, filter.countSQL(), filter.args); len(steps) != 1 || !strings.Contains(steps[0], "COVERING INDEX event by watership.replay.of") {
		t.Errorf("the plan is %q", steps)
	}
}

// TestNoNewEventsCostNoSearch: while there are no new events, a reader of new ones does not search the old ones for those of
// its query.
func TestNoNewEventsCostNoSearch(t *testing.T) {
	s := installed(t, Config{})
	if _, err := s.writer.ExecContext(t.Context(), "DROP TABLE term"); err != nil {
		t.Fatal(err)
	}
	sel := eventstore.Selection{Query: node(t, "watership.source: shop"), Order: eventstore.BySequence, After: eventstore.Cursor{Sequence: 5}, UpTo: 10}
	for _, err := range s.Events(t.Context(), sel) {
		t.Error(err)
	}
}

// TestPercentilesReadByQueue: the events of a period come from the index of the queue, in its order, and a search
// for a header is evaluated once for all queues.
func TestPercentilesReadByQueue(t *testing.T) {
	s := installed(t, Config{})
	field, _ := s.layout.fields.Lookup("watership.queue")
	for query, want := range map[string]string{
		`@timestamp >= "2026-05-14" and event.action: (handled or poisoned)`: "SEARCH event USING INDEX event by watership.queue (watership.queue=? AND @timestamp>?)",
		"headers.tenant: acme": "SEARCH event USING INTEGER PRIMARY KEY (rowid=?)",
	} {
		values, err := s.newFieldValues("testing", eventstore.Selection{Query: node(t, query)}, field)
		if err != nil {
			t.Fatal(err)
		}
		steps := plan(t, s, values.percentilesSQL([]string{"event.duration"}), append([]any{`["orders","mail"]`}, values.filter.args...))
		sorts, terms := 0, 0
		for _, step := range steps {
			if strings.Contains(step, "TEMP B-TREE") {
				sorts++
			}
			if strings.Contains(step, "term VIRTUAL TABLE") {
				terms++
			}
		}
		if isSearch := strings.Contains(query, "headers"); steps[0] != want || sorts > 0 != isSearch || terms > 1 || terms == 1 != isSearch {
			t.Errorf("the plan for %s is %q", query, steps)
		}
	}
}

func plan(t *testing.T, s *Store, statement string, args []any) []string {
	t.Helper()
	rows, err := s.readers.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}

// TestQueriesByID: of queries that an index of ids answers, only a few of the newest events
// are searched first.
func TestQueriesByID(t *testing.T) {
	s := installed(t, Config{})
	for query, want := range map[string]bool{
		"watership.fingerprint: a": true, "event.id: a": true, `event.id: "a" or event.id: "b"`: true, "watership.fingerprint: a and event.action: poisoned": true,
		`watership.fingerprint: "a" or event.id: "b"`: true, "not watership.fingerprint: a": false, `watership.fingerprint: "a" or event.action: poisoned`: false, "event.action: poisoned": false,
		"watership.fingerprint: *": false, "watership.fingerprint: a*": false, "*": false,
	} {
		filter, err := s.filter("testing", eventstore.Selection{Query: node(t, query)})
		if err != nil || filter.byID != want {
			t.Errorf("%s: %v, %v, want %v", query, filter.byID, err, want)
		}
	}
}
