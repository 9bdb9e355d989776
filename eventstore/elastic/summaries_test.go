package elastic

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

func TestSummariesOfManyPages(t *testing.T) {
	t.Parallel() // most of it is waiting
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
	for summary, err := range s.Summaries(t.Context(), eventstore.Selection{}) {
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
		sel    eventstore.Selection
		either []eventstore.FieldIn
		want   string
	}{
		{eventstore.Selection{Limit: 2}, nil, "1 2"},
		{eventstore.Selection{}, []eventstore.FieldIn{{Field: "event.id", Values: []string{"event-000007", "event-000003"}}}, "3 7"},
		{eventstore.Selection{}, []eventstore.FieldIn{{Field: "event.id", Values: []string{"event-000007"}}, {Field: "event.id", Values: []string{"event-000009"}}}, "7 9"},
		{eventstore.Selection{UpTo: 8}, []eventstore.FieldIn{{Field: "event.id", Values: []string{"event-000007", "event-000009"}}}, "7"},
		{eventstore.Selection{}, []eventstore.FieldIn{{Field: "event.id"}}, ""},
		{eventstore.Selection{After: eventstore.Cursor{Sequence: events - 1, EventID: "zzz"}}, nil, fmt.Sprint(events)},
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

// The sources of failures, of which there can be thousands in a list, are not read: only those of
// traffic, and those of failures in an index of a former version.
func TestSummariesOfFailuresReadNoSources(t *testing.T) {
	var sources atomic.Int64
	s := throughProxy(t, func(w http.ResponseWriter, r *http.Request, real http.Handler) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if strings.HasSuffix(r.URL.Path, "/_search") && !bytes.Contains(body, []byte(`"_source":false`)) {
			sources.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		real.ServeHTTP(w, r)
	})
	former, err := eventstore.StreamTemplate(s.dataStream(schemas.Failures), "", s.mappingsTemplate())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	var want []eventstore.EventSummary
	add := func(n int, action schemas.Action) {
		e := event(n)
		e.Action, e.Fingerprint, e.Envelope.Properties.MessageID = action, fmt.Sprint("fingerprint-", n), fmt.Sprint("m-", n)
		create(t, s, schemas.DocumentFormat{}.Document(e))
		want = append(want, eventstore.Summarize(e))
	}
	read := func(most int64) {
		t.Helper()
		sources.Store(0)
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []eventstore.EventSummary
		for summary, err := range s.Summaries(t.Context(), eventstore.Selection{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, summary)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if n := sources.Load(); n != most {
			t.Errorf("%d requests read sources, want %d", n, most)
		}
	}
	add(1, schemas.Poisoned)
	add(2, schemas.RetryScheduled)
	read(0)
	add(3, schemas.Handled)
	read(1)
	mustDo(t, "PUT", "/_index_template/"+s.dataStream(schemas.Failures), string(former))
	rollOver(t, s, schemas.Failures)
	add(4, schemas.Poisoned)
	read(1)
}
