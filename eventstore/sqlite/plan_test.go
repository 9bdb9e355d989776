package sqlite

import (
	"regexp"
	"slices"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
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
