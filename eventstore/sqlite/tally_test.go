package sqlite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// counted are the events of a selection: what the store counts, and what its events are.
type counted struct {
	all              int64
	byAction, queues string
	over             [][]int64
}

// TestCountsFromTally: events that are counted by the table tally are as many as there are, wherever a selection begins
// and ends, and before and after some are removed.
func TestCountsFromTally(t *testing.T) {
	s := installed(t, Config{Retention: hourOfTraffic})
	begin := time.Now().Add(-2 * time.Hour).Truncate(time.Hour)
	var docs []schemas.Document
	for n := range 700 {
		e := event("", n+1)
		e.Time = begin.Add(time.Duration(n) * 11 * time.Second)
		e.Sequence = e.Time.UnixMicro()
		e.Action = []schemas.Action{schemas.Published, schemas.Handled, schemas.Handled, schemas.Poisoned}[n%4]
		e.Queue = []string{"", "orders", "mails"}[n%3]
		docs = append(docs, schemas.DocumentFormat{}.Document(e))
	}
	create(t, s, docs...)
	check := func() {
		t.Helper()
		for _, within := range []string{
			"*", "event.action: handled", "event.action: (handled or poisoned) and not watership.queue: mails", "watership.queue: *", "not watership.queue: *", "watership.queue: o*",
		} {
			for _, from := range []time.Duration{0, time.Second, 5 * time.Minute, 17*time.Minute + 3*time.Second} {
				for _, to := range []time.Duration{0, time.Second, 5 * time.Minute, 31 * time.Minute} {
					query := fmt.Sprintf(`%s and @timestamp >= "%s" and @timestamp < "%s"`, within,
						begin.Add(from).UTC().Format(time.RFC3339Nano), begin.Add(2*time.Hour-to).UTC().Format(time.RFC3339Nano))
					sel := eventstore.Selection{Query: node(t, query)}
					if _, is := s.layout.compiler().tallied(sel); !is {
						t.Fatalf("%s is not counted by the tally", query)
					}
					over := eventstore.NewSteps(begin.Add(from), begin.Add(2*time.Hour), 30, time.UTC)
					got, want := countsOf(t, s, sel, over), eventsOf(t, s, sel, over)
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("%s: got %v, want %v", query, got, want)
					}
				}
			}
		}
	}
	check()
	if removed, err := s.Retain(t.Context()); removed == 0 || err != nil {
		t.Fatalf("removed %d, %v", removed, err)
	}
	check()
	wantConsistent(t, s)
}

func countedActions() []schemas.Action { return []schemas.Action{schemas.Handled, schemas.Poisoned} }

func countsOf(t *testing.T, s *Store, sel eventstore.Selection, over eventstore.Steps) (c counted) {
	t.Helper()
	text := func(field string) string {
		found, err := s.TopValues(t.Context(), sel, field, 10)
		if err != nil {
			t.Fatal(err)
		}
		parts := []string{fmt.Sprint(found.Without)}
		for _, v := range found.Values {
			parts = append(parts, fmt.Sprint(v.Text, "=", v.Count))
		}
		return strings.Join(parts, " ")
	}
	c.byAction, c.queues = text("event.action"), text("watership.queue")
	var err error
	if c.all, err = s.Count(t.Context(), sel); err == nil {
		c.over, err = s.HistogramByAction(t.Context(), sel, over, countedActions())
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventsOf counts the summaries of a selection, which come from the table event.
func eventsOf(t *testing.T, s *Store, sel eventstore.Selection, over eventstore.Steps) (c counted) {
	t.Helper()
	actions, queues := map[string]int{}, map[string]int{}
	for range countedActions() {
		c.over = append(c.over, make([]int64, over.Count))
	}
	for e, err := range s.Summaries(t.Context(), sel) {
		if err != nil {
			t.Fatal(err)
		}
		c.all++
		actions[string(e.Action)]++
		queues[e.Queue]++
		if at := slices.Index(countedActions(), e.Action); at >= 0 && !e.Time.Before(over.Begin) {
			if step := int(e.Time.Sub(over.Begin) / over.Length); step < over.Count {
				c.over[at][step]++
			}
		}
	}
	text := func(of map[string]int) string {
		parts := []string{fmt.Sprint(of[""])}
		delete(of, "")
		for _, value := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), strings.Compare(a, b)) }) {
			parts = append(parts, fmt.Sprint(value, "=", of[value]))
		}
		return strings.Join(parts, " ")
	}
	c.byAction, c.queues = text(actions), text(queues)
	return c
}
