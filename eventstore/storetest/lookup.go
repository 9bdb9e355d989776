package storetest

import (
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

func testEmpty(t *testing.T, store Store) {
	s := subject{store, t.Name()}
	if highest, err := s.HighestSequence(t.Context()); err != nil || highest != 0 {
		t.Errorf("the highest sequence of an empty store: got %d, %v, want 0", highest, err)
	}
	s.refresh(t)
	if n := s.count(t, eventstore.Selection{}); n != 0 {
		t.Errorf("an empty store counts %d", n)
	}
	wantNumbers(t, s.read(t, eventstore.Selection{}), "")
	wantNumbers(t, s.read(t, eventstore.Selection{Order: eventstore.BySequence, After: eventstore.Cursor{Sequence: 1}}), "")
	if found := s.find(t, "x"); len(found) != 0 {
		t.Errorf("an empty store found %v", found)
	}
}

func testSequencesMissing(t *testing.T, s subject) {
	s.create(t, documents(s.event(1)), eventstore.Created)
	conflict := s.create(t, documents(s.event(1)), eventstore.Conflict)[0]
	there := eventstore.DocumentID{Index: conflict.Index, ID: s.event(1).EventID}
	got := s.sequences(t,
		eventstore.DocumentID{Index: conflict.Index, ID: s.source + "nobody"},
		there,
		eventstore.DocumentID{Index: "an-index-that-was-deleted", ID: there.ID})
	if len(got) != 1 || got[there] != 1 {
		t.Errorf("got %v, want only %v", got, there)
	}
	if got := s.sequences(t); len(got) != 0 {
		t.Errorf("the sequences of nothing: %v", got)
	}
}

// testFind does not refresh: new documents are found at once.
func testFind(t *testing.T, s subject) {
	poisoned := s.event(3)
	poisoned.Action = schemas.Poisoned
	s.create(t, documents(s.event(1), s.event(2), poisoned), eventstore.Created, eventstore.Created, eventstore.Created)
	ids := []string{s.event(1).EventID, poisoned.EventID, s.source + "nobody"}
	found := s.find(t, ids...)
	if len(found) != 2 {
		t.Fatalf("found %v, want the first two of %v", found, ids)
	}
	for _, id := range ids[:2] {
		stored := found[id]
		if got := s.sequences(t, stored); stored.ID != id || len(got) != 1 {
			t.Errorf("%s was found at %v, where there is %v", id, stored, got)
		}
	}
	if found := s.find(t); len(found) != 0 {
		t.Errorf("nothing was looked for and %v found", found)
	}
}

func testHighestSequence(t *testing.T, s subject) {
	event := s.event(1)
	event.Sequence = 1<<53 - 1 // eventstore.MaxSequence
	another := s.event(3)
	another.Source += "'s neighbour"
	absurd := s.event(4)
	absurd.Sequence = 1<<63 - 1 // as another program can write it
	s.create(t, documents(event, s.event(2), another, absurd), eventstore.Created, eventstore.Created, eventstore.Created, eventstore.Created)
	if got, err := s.HighestSequence(t.Context()); err != nil || got != event.Sequence {
		t.Errorf("got %d, %v, want %d", got, err, event.Sequence)
	}
	for source, want := range map[string]int64{s.source: event.Sequence, another.Source: 3, "nobody": 0} {
		if got, err := s.HighestSequenceOf(t.Context(), source); err != nil || got != want {
			t.Errorf("of %s: got %d, %v, want %d", source, got, err, want)
		}
	}
}

func (s subject) sequences(t *testing.T, stored ...eventstore.DocumentID) map[eventstore.DocumentID]int64 {
	t.Helper()
	sequences, err := s.Sequences(t.Context(), stored)
	if err != nil {
		t.Fatal(err)
	}
	return sequences
}

func (s subject) find(t *testing.T, ids ...string) map[string]eventstore.DocumentID {
	t.Helper()
	found, err := s.Find(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
