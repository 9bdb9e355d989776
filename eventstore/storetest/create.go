package storetest

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

func testCreatedOnce(t *testing.T, s subject) {
	first, second := s.event(1), s.event(2)
	second.EventID = first.EventID
	s.create(t, documents(first), eventstore.Created)
	conflict := s.create(t, documents(second), eventstore.Conflict)[0]
	if conflict.Index == "" {
		t.Error("a conflict does not name the index")
	}
	stored := eventstore.DocumentID{Index: conflict.Index, ID: first.EventID}
	if got := s.sequences(t, stored); got[stored] != first.Sequence {
		t.Errorf("the sequence of what was there: got %v, want %d", got, first.Sequence)
	}
	s.refresh(t)
	wantNumbers(t, s.read(t, s.selectOwn(t, "")), "1")
}

func testDuplicateInBatch(t *testing.T, s subject) {
	first, second := s.event(1), s.event(2)
	second.EventID = first.EventID
	s.create(t, documents(first, second), eventstore.Created, eventstore.Conflict)
	s.refresh(t)
	wantNumbers(t, s.read(t, s.selectOwn(t, "")), "1")
}

func testMixedBatch(t *testing.T, s subject) {
	s.create(t, documents(s.event(1)), eventstore.Created)
	failed := s.event(4)
	failed.Action = schemas.Poisoned // in the other stream
	docs := documents(s.event(1), s.event(2), s.event(3), failed)
	docs = append(docs,
		s.raw("date", `{"@timestamp":"yesterday","watership":{"version":1}}`),
		s.raw("broken", `{"@timestamp":`),
		s.raw(strings.Repeat("long", 200), `{"@timestamp":"2026-01-01T00:00:00Z"}`),
	)
	docs = append(docs, documents(s.event(5))...)
	results := s.create(t, docs, eventstore.Conflict, eventstore.Created, eventstore.Created, eventstore.Created,
		eventstore.Refused, eventstore.Refused, eventstore.Refused, eventstore.Created)
	for _, result := range results[4:7] {
		if result.Reason == "" || strings.Contains(result.Reason, "\n") {
			t.Errorf("a refusal wants a reason of one line, got %q", result.Reason)
		}
	}
	s.refresh(t)
	sel := s.selectOwn(t, "")
	sel.Order = eventstore.BySequence
	wantNumbers(t, s.read(t, sel), "1 2 3 4 5")
}

func testEmptyBatch(t *testing.T, s subject) {
	s.create(t, nil)
	unfit := []schemas.Document{
		s.raw(strings.Repeat("long", 200), `{}`),
		s.raw("not utf-8 \xff", `{}`),
		{Stream: schemas.Traffic, Source: []byte(`{}`)},
		{ID: s.source, Stream: "elsewhere", Source: []byte(`{}`)},
	}
	s.create(t, unfit, eventstore.Refused, eventstore.Refused, eventstore.Refused, eventstore.Refused)
}

func testOddIDs(t *testing.T, s subject) {
	var events []schemas.Event
	var ids []string
	for n, odd := range []string{`"quoted" / # ? & <b>`, `back\slash`, "línea\n\t\x01", "日本", strings.Repeat("x", 300)} {
		event := s.event(n + 1)
		event.EventID = s.source + odd
		events = append(events, event)
		ids = append(ids, event.EventID)
	}
	s.createVisible(t, events...)
	s.create(t, documents(events...), eventstore.Conflict, eventstore.Conflict, eventstore.Conflict, eventstore.Conflict, eventstore.Conflict)
	if found := s.find(t, ids...); len(found) != len(ids) {
		t.Errorf("found %d of %d odd ids: %v", len(found), len(ids), found)
	}
	for _, event := range s.read(t, s.selectOwn(t, "")) {
		if want := ids[event.Sequence-1]; event.EventID != want {
			t.Errorf("id %q came back as %q", want, event.EventID)
		}
	}
}

// testLineBreaks has line breaks in a body, and between the fields of a document.
func testLineBreaks(t *testing.T, s subject) {
	event := s.event(1)
	event.Envelope.Body = []byte("{\r\n  \"order\":\n    1\n}\n")
	broken := documents(event)
	broken[0].Source = bytes.ReplaceAll(broken[0].Source, []byte(`,"`), []byte(",\n\""))
	s.create(t, broken, eventstore.Created)
	s.createVisible(t, s.event(2))
	got := s.read(t, s.selectOwn(t, "body.json.order: 1"))
	wantNumbers(t, got, "1")
	if len(got) == 1 && string(got[0].Envelope.Body) != string(event.Envelope.Body) {
		t.Errorf("body %q came back as %q", event.Envelope.Body, got[0].Envelope.Body)
	}
}

func testConcurrent(t *testing.T, s subject) {
	const writers, documentsEach = 8, 50
	docs := documents(s.events(1, documentsEach)...)
	var created [documentsEach]atomic.Int32
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			results, err := s.Create(t.Context(), docs)
			if err != nil {
				t.Error(err)
				return
			}
			for i, result := range results {
				switch result.Status {
				case eventstore.Created:
					created[i].Add(1)
				case eventstore.Conflict:
				default:
					t.Errorf("document %d: %+v", i, result)
				}
			}
		})
	}
	all.Wait()
	for i := range created {
		if n := created[i].Load(); n != 1 {
			t.Errorf("document %d was created %d times", i, n)
		}
	}
}
