package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// manyEvents is more than two pages of any store.
const manyEvents = 2500

func testPages(t *testing.T, s subject) {
	s.createVisible(t, s.events(1, manyEvents)...)
	for _, sel := range []eventstore.Selection{
		{Order: eventstore.BySequence, WithoutBody: true}, // with bodies: testStableView
		{Order: eventstore.NewestFirst},
		{Order: eventstore.BySequence, Limit: 1500},
	} {
		sel.Query = s.selectOwn(t, "").Query
		wantSequences(t, s.read(t, sel), sel)
	}
	testStableView(t, s)
}

// wantSequences checks that every sequence comes once, in order.
func wantSequences(t *testing.T, events []schemas.Event, sel eventstore.Selection) {
	t.Helper()
	want := manyEvents
	if sel.Limit > 0 {
		want = sel.Limit
	}
	if len(events) != want {
		t.Fatalf("%+v gave %d events, want %d", sel, len(events), want)
	}
	for i, event := range events {
		expected := int64(i + 1)
		if sel.Order == eventstore.NewestFirst {
			expected = int64(manyEvents - i)
		}
		if event.Sequence != expected {
			t.Fatalf("%+v gave event %d in place %d", sel, event.Sequence, i)
		}
	}
}

// testStableView creates events before and after the existing ones during a reading.
func testStableView(t *testing.T, s subject) {
	t.Helper()
	sel := s.selectOwn(t, "")
	sel.Order = eventstore.BySequence
	read := 0
	for event, err := range s.Events(t.Context(), sel) {
		if err != nil {
			t.Fatal(err)
		}
		if read++; event.Sequence != int64(read) {
			t.Fatalf("event %d in place %d", event.Sequence, read)
		}
		if read == 1 {
			s.createVisible(t, s.events(manyEvents+1, manyEvents+100)...)
			early := s.event(0)
			s.createVisible(t, early)
		}
	}
	if read != manyEvents {
		t.Errorf("read %d events, want the %d that there were", read, manyEvents)
	}
	if n := s.count(t, sel); n != manyEvents+101 {
		t.Errorf("counted %d afterwards, want %d", n, manyEvents+101)
	}
}

// testEarlyBreak breaks out of more readings than most stores can leave open.
func testEarlyBreak(t *testing.T, s subject) {
	s.createVisible(t, s.events(1, 3)...)
	for range 50 {
		for event, err := range s.Events(t.Context(), s.selectOwn(t, "")) {
			if err != nil || event.Sequence != 3 {
				t.Fatalf("got event %d, %v", event.Sequence, err)
			}
			break
		}
	}
}

func testContextDone(t *testing.T, s subject) {
	s.createVisible(t, s.event(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Create(ctx, documents(s.event(2)))
	var failed *eventstore.Error
	if !errors.As(err, &failed) || failed.Kind != eventstore.Unavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("creating gave %v, want a store that is away, since canceled", err)
	}
	reads := 0
	for _, err := range s.Events(ctx, s.selectOwn(t, "")) {
		if reads++; !errors.Is(err, context.Canceled) {
			t.Errorf("reading gave %v, want canceled", err)
		}
	}
	if reads != 1 {
		t.Errorf("reading went on: %d turns", reads)
	}
	stored := eventstore.DocumentID{Index: string(schemas.Traffic), ID: s.event(1).EventID}
	wantCanceled(t, map[string]func() error{
		"Count":             func() error { _, err := s.Count(ctx, s.selectOwn(t, "")); return err },
		"Find":              func() error { _, err := s.Find(ctx, []string{stored.ID}); return err },
		"Sequences":         func() error { _, err := s.Sequences(ctx, []eventstore.DocumentID{stored}); return err },
		"HighestSequence":   func() error { _, err := s.HighestSequence(ctx); return err },
		"HighestSequenceOf": func() error { _, err := s.HighestSequenceOf(ctx, s.source); return err },
		"Refresh":           func() error { return s.Refresh(ctx) },
	})
}

// wantCanceled checks that each request with a canceled context is a *eventstore.Error
// on one line.
func wantCanceled(t *testing.T, requests map[string]func() error) {
	t.Helper()
	for name, request := range requests {
		err := request()
		var failed *eventstore.Error
		if !errors.Is(err, context.Canceled) || !errors.As(err, &failed) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s gave %v, want a store error of one line, canceled", name, err)
		}
	}
}

// wantDocumentError checks for an error that does not end a reading and names the
// document.
func wantDocumentError(t *testing.T, err error, id string) {
	t.Helper()
	var failed *eventstore.Error
	if errors.As(err, &failed) {
		t.Errorf("%v would end the reading", err)
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("%q", id)) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%q: want one line that names %q", err, id)
	}
}
