package elastic

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/schemas"
)

func TestReplacementsConform(t *testing.T) {
	t.Parallel() // most of it is waiting
	storetest.RunReplacements(t, func(t *testing.T) storetest.Replacements { return installed(t, Config{}) })
}

// labelled returns the documents of a message and its failure with the label tenant.
func labelled() (published, poisoned schemas.Event, format schemas.DocumentFormat) {
	published, poisoned = event(1), event(2)
	poisoned.Action = schemas.Poisoned
	for _, e := range []*schemas.Event{&published, &poisoned} {
		e.Envelope.Headers = map[string]any{"tenant": "acme"}
	}
	return published, poisoned, schemas.DocumentFormat{Labels: []string{"tenant"}}
}

// conflicted makes both streams map the label tenant as a date, so that they refuse the
// documents of labelled, and quarantines these.
func conflicted(t *testing.T, s *Store) []eventstore.Replacement {
	t.Helper()
	published, poisoned, format := labelled()
	create(t, s, format.Document(event(8)), format.Document(event(9).Quarantine("so that both streams exist")))
	for _, stream := range s.writtenNames() {
		mustDo(t, "PUT", "/"+stream+"/_mapping", `{"properties":{"labels":{"properties":{"tenant":{"type":"date"}}}}}`)
	}
	var list []eventstore.Replacement
	for _, e := range []schemas.Event{published, poisoned} {
		doc := format.Document(e)
		results, err := s.Create(t.Context(), []schemas.Document{doc})
		if err != nil || results[0].Status != eventstore.Refused || !strings.Contains(results[0].Reason, "labels.tenant") {
			t.Fatalf("%s: got %+v, %v", e.EventID, results, err)
		}
		create(t, s, format.Document(e.Quarantine(results[0].Reason)))
		list = append(list, eventstore.Replacement{Quarantined: e.EventID, Document: doc})
	}
	return list
}

func replace(t *testing.T, s *Store, list []eventstore.Replacement, want ...eventstore.Status) {
	t.Helper()
	results, err := s.Replace(t.Context(), list)
	if err != nil || len(results) != len(want) {
		t.Fatalf("got %+v, %v", results, err)
	}
	for i, result := range results {
		if result.Status != want[i] {
			t.Errorf("%s: got %+v, want status %d", list[i].Quarantined, result, want[i])
		}
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantCount(t *testing.T, s *Store, query string, want int64) {
	t.Helper()
	node, err := kql.Parse(query)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Count(t.Context(), eventstore.Selection{Query: node}); err != nil || got != want {
		t.Errorf("%s: got %d documents, %v, want %d", query, got, err, want)
	}
}

// A conflicting mapping refuses documents, until a new index has the right one.
func TestReplacingAfterAMappingConflict(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := installed(t, Config{})
	list := conflicted(t, s)
	replace(t, s, list, eventstore.Refused, eventstore.Refused)
	wantCount(t, s, "watership.quarantined_action: * and event.sequence < 8", 2)
	for _, stream := range s.written() {
		rollOver(t, s, stream)
	}
	for range 2 {
		replace(t, s, list, eventstore.Created, eventstore.Created)
		wantCount(t, s, "event.sequence < 8", 2)
		wantCount(t, s, "labels.tenant: *", 2)
		wantCount(t, s, "watership.quarantined_action: * and event.sequence < 8", 0)
	}
}

// An interruption before the deletion leaves both documents, one event, and nothing that
// another attempt does not mend, also after another rollover.
func TestReplacingInterrupted(t *testing.T) {
	var down atomic.Bool
	s := throughProxy(t, func(w http.ResponseWriter, r *http.Request, real http.Handler) {
		body, _ := io.ReadAll(r.Body)
		if down.Load() && bytes.Contains(body, []byte(`{"delete":`)) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		real.ServeHTTP(w, r)
	})
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := conflicted(t, s)
	for _, stream := range s.written() {
		rollOver(t, s, stream)
	}
	down.Store(true)
	_, err := s.Replace(t.Context(), list)
	wantStoreError(t, err, eventstore.Unavailable)
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, "event.sequence < 8", 4)
	events := 0
	for e, err := range s.Events(t.Context(), eventstore.Selection{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Sequence < 8 {
			events++
		}
	}
	if events != 2 {
		t.Errorf("%d events are read, want 2", events)
	}
	for _, stream := range s.written() {
		rollOver(t, s, stream)
	}
	down.Store(false)
	replace(t, s, list, eventstore.Created, eventstore.Created)
	wantCount(t, s, "event.sequence < 8", 2)
	wantCount(t, s, "labels.tenant: *", 2)
}

// A publisher sends an equal message after the first one was quarantined: it has the same
// id, in the other stream.
func TestReplacingBesideAnEqualMessage(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := installed(t, Config{})
	first, second := event(1), event(2)
	second.EventID = first.EventID
	format := schemas.DocumentFormat{}
	create(t, s, format.Document(first.Quarantine("too many fields")), format.Document(second))
	replace(t, s, []eventstore.Replacement{{Quarantined: first.EventID, Document: format.Document(first)}}, eventstore.Conflict)
	wantCount(t, s, "watership.quarantined_action: *", 1)
	unique := format.Document(first.WithUniqueID())
	replace(t, s, []eventstore.Replacement{{Quarantined: first.EventID, Document: unique}}, eventstore.Created)
	wantCount(t, s, "watership.quarantined_action: *", 0)
	wantCount(t, s, "event.action: published", 2)
}
