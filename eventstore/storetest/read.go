package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

func testQueries(t *testing.T, s subject) {
	poisoned := s.event(2)
	poisoned.Action = schemas.Poisoned
	poisoned.Failure = schemas.Failure{Message: "no stock of item 42", Type: "http.Status"}
	poisoned.Envelope.Headers = map[string]any{"tenant": "umbrella"}
	s.createVisible(t, s.event(1), poisoned, s.event(3))
	for text, want := range map[string]string{
		"":                       "1 2 3",
		"event.action: poisoned": "2",
		"headers.tenant: acme":   "1 3",
		"headers.tenant: acme and not body.json.order: 3":    "1",
		"error.message: stock":                               "2",
		`error.message: "item 42"`:                           "2",
		"event.sequence >= 2":                                "2 3",
		`@timestamp < "2026-05-04T03:02:03Z"`:                "1",
		"event.action: (published or poisoned)":              "1 2 3",
		"headers.tenant: nobody":                             "",
		"error.type: http* or messaging.message.id: \"m-3\"": "2 3",
	} {
		sel := s.selectOwn(t, text)
		sel.Order = eventstore.BySequence
		events := s.read(t, sel)
		if eventNumbers(events) != want {
			t.Errorf("%s: got %q, want %q", text, eventNumbers(events), want)
		}
		if n := s.count(t, sel); n != int64(len(events)) {
			t.Errorf("%s: counted %d, read %d", text, n, len(events))
		}
	}
}

// testManyValues has ids that can be in any of four fields, as in replay --ids.
func testManyValues(t *testing.T, s subject) {
	s.createVisible(t, s.events(1, 4)...)
	either := anyOfIDs(10_000)
	for _, test := range []struct {
		either kql.Or
		more   string
		want   string
	}{{either, "event.sequence: 1", "1 3 4"}, {anyOfIDs(100), "event.sequence: 99", "3 4"}} {
		sel := s.selectOwn(t, "")
		sel.Order, sel.Query = eventstore.BySequence, kql.And{sel.Query, append(kql.Or{parseQuery(t, test.more)}, test.either...)}
		if got := eventNumbers(s.read(t, sel)); got != test.want {
			t.Errorf("%d ids or %s: got %q, want %q", len(test.either), test.more, got, test.want)
		}
	}
	sel := s.selectOwn(t, "")
	sel.Query = kql.And{sel.Query, kql.Not{Node: either}}
	if n := s.count(t, sel); n != 2 {
		t.Errorf("without those of 10,000 ids: counted %d, want 2", n)
	}
}

// anyOfIDs matches n ids from m-3 on, in each field that has ids.
func anyOfIDs(n int) kql.Or {
	var either kql.Or
	for i := range n {
		for _, field := range []string{"messaging.message.id", "watership.fingerprint", "watership.message", "event.id"} {
			either = append(either, kql.FieldIs(field, fmt.Sprint("m-", i+3)))
		}
	}
	return either
}

func parseQuery(t *testing.T, text string) kql.Node {
	t.Helper()
	node, err := kql.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func testNewestFirst(t *testing.T, s subject) {
	events := s.events(1, 5)
	events[0].Time = startTime.Add(1000e9) // the first to be ingested, the last to happen
	s.createVisible(t, events...)
	sel := s.selectOwn(t, "")
	wantNumbers(t, s.read(t, sel), "1 5 4 3 2")
	sel.Limit = 2
	wantNumbers(t, s.read(t, sel), "1 5")
	sel.Limit, sel.UpTo = 0, 4
	wantNumbers(t, s.read(t, sel), "1 4 3 2")
}

func testBySequence(t *testing.T, s subject) {
	events := s.events(1, 5)
	for i := range events {
		events[i].Time = startTime.Add(-events[i].Time.Sub(startTime))
	}
	s.createVisible(t, events[3], events[0], events[4], events[2], events[1])
	sel := s.selectOwn(t, "")
	sel.Order = eventstore.BySequence
	wantNumbers(t, s.read(t, sel), "1 2 3 4 5")
	sel.Limit = 3
	wantNumbers(t, s.read(t, sel), "1 2 3")
}

// testCursor continues after every event, also after one of several with the same
// sequence.
func testCursor(t *testing.T, s subject) {
	events := s.events(1, 6)
	events[2].Sequence, events[3].Sequence = 2, 2
	s.createVisible(t, events...)
	sel := s.selectOwn(t, "")
	sel.Order = eventstore.BySequence
	for i, event := range events {
		sel.After = eventstore.Cursor{Sequence: event.Sequence, EventID: event.EventID}
		rest := s.read(t, sel)
		if len(rest) != len(events)-i-1 || len(rest) > 0 && rest[0].EventID != events[i+1].EventID {
			t.Errorf("behind event %d came %q, want the %d behind it", i, eventNumbers(rest), len(events)-i-1)
		}
		if n := s.count(t, sel); n != int64(len(rest)) {
			t.Errorf("behind event %d: counted %d, read %d", i, n, len(rest))
		}
	}
}

// testCursorNewestFirst continues after every event, also after one of several with the
// same time and sequence, with a limit and without.
func testCursorNewestFirst(t *testing.T, s subject) {
	events := s.events(1, 8)
	events[3].Time, events[4].Time = events[2].Time, events[2].Time.Add(time.Microsecond)
	events[4].Sequence = events[3].Sequence
	s.createVisible(t, events...)
	sel := s.selectOwn(t, "")
	all := s.read(t, sel)
	if len(all) != len(events) {
		t.Fatalf("read %q", eventNumbers(all))
	}
	for i, event := range all {
		sel.After = eventstore.CursorAt(event)
		for sel.Limit = range 3 {
			want := all[i+1:]
			if sel.Limit > 0 {
				want = want[:min(sel.Limit, len(want))]
			}
			if got := s.read(t, sel); eventNumbers(got) != eventNumbers(want) {
				t.Errorf("after event %d with limit %d came %q, want %q", i, sel.Limit, eventNumbers(got), eventNumbers(want))
			}
		}
		if n := s.count(t, sel); n != int64(len(all)-i-1) {
			t.Errorf("after event %d: counted %d of %d", i, n, len(all))
		}
	}
}

func testUpTo(t *testing.T, s subject) {
	s.createVisible(t, s.events(1, 5)...)
	sel := s.selectOwn(t, "")
	sel.Order, sel.UpTo = eventstore.BySequence, 4
	sel.After = eventstore.Cursor{Sequence: 2, EventID: s.event(2).EventID}
	wantNumbers(t, s.read(t, sel), "3 4")
	if n := s.count(t, sel); n != 2 {
		t.Errorf("counted %d, want 2", n)
	}
}

func testWithoutBody(t *testing.T, s subject) {
	s.createVisible(t, s.events(1, 3)...)
	sel := s.selectOwn(t, "")
	sel.Order, sel.WithoutBody = eventstore.BySequence, true
	events := s.read(t, sel)
	wantNumbers(t, events, "1 2 3")
	for i, got := range events {
		want := s.event(i + 1)
		if got.Envelope.Body != nil {
			t.Errorf("a body came: %q", got.Envelope.Body)
		}
		want.Envelope.Body = nil
		wantEqual(t, want, got)
	}
}

// testInvalidDocument continues after an invalid document.
func testInvalidDocument(t *testing.T, s subject) {
	s.createVisible(t, s.events(1, 3)...)
	source := `{"@timestamp":"2026-05-04T03:02:03.5Z","event":{"id":"from the future","sequence":2},` +
		`"watership":{"version":99,"source":"` + s.source + `"}}`
	s.create(t, []schemas.Document{s.raw("strange", source)}, eventstore.Created)
	s.refresh(t)
	sel := s.selectOwn(t, "")
	sel.Order = eventstore.BySequence
	var events []schemas.Event
	var errs []error
	for event, err := range s.Events(t.Context(), sel) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		events = append(events, event)
	}
	wantNumbers(t, events, "1 2 3")
	if len(errs) != 1 {
		t.Fatalf("got errors %v, want one", errs)
	}
	wantDocumentError(t, errs[0], s.source+"strange")
}
