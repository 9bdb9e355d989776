package elastic

import (
	"fmt"
	"testing"

	"github.com/watershipmq/watership/schemas"
)

func TestSummariesOfManyPages(t *testing.T) {
	s := installed(t, Config{})
	const events = 2*maxPage + 10
	create(t, s, eventDocuments(1, events)...)
	rollOver(t, s, schemas.Traffic)
	create(t, s, eventDocuments(5, 5)...) // once more, across a rollover
	tied := event(maxPage - 1)            // the repeated one makes the first page end here
	tied.EventID += " and another"
	create(t, s, schemas.DocumentFormat{}.Document(tied))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, ties := int64(1), 0
	for summary, err := range s.Summaries(t.Context(), schemas.Selection{}) {
		if err == nil && summary.EventID == tied.EventID {
			ties++
			continue
		}
		if err != nil || summary.Sequence != next {
			t.Fatalf("got %d, %v, want %d", summary.Sequence, err, next)
		}
		next++
	}
	if ties != 1 {
		t.Errorf("the tied event came %d times", ties)
	}
	if next != events+1 {
		t.Errorf("read up to %d of %d", next-1, events)
	}
	for _, test := range []struct {
		sel    schemas.Selection
		either []schemas.Among
		want   string
	}{
		{schemas.Selection{Limit: 2}, nil, "1 2"},
		{schemas.Selection{}, []schemas.Among{{Field: "event.id", Values: []string{"event-000007", "event-000003"}}}, "3 7"},
		{schemas.Selection{}, []schemas.Among{{Field: "event.id", Values: []string{"event-000007"}}, {Field: "event.id", Values: []string{"event-000009"}}}, "7 9"},
		{schemas.Selection{UpTo: 8}, []schemas.Among{{Field: "event.id", Values: []string{"event-000007", "event-000009"}}}, "7"},
		{schemas.Selection{}, []schemas.Among{{Field: "event.id"}}, ""},
		{schemas.Selection{After: schemas.Cursor{Sequence: events - 1, EventID: "zzz"}}, nil, fmt.Sprint(events)},
	} {
		got := ""
		for summary, err := range s.Summaries(t.Context(), test.sel, test.either...) {
			if err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprint(" ", summary.Sequence)
		}
		if got != "" {
			got = got[1:]
		}
		if got != test.want {
			t.Errorf("%+v %v: got %q, want %q", test.sel, test.either, got, test.want)
		}
	}
}
