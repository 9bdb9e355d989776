package storetest

import (
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// KeepRules are the rules with which the stores of Run are opened.
func KeepRules() eventstore.KeepRules {
	return eventstore.KeepRules{
		{Exchange: "ledger", Keep: 0},
		{Stream: "order-*", Keep: 730 * 24 * time.Hour},
	}
}

// testPeriods: events of other periods are read with the rest.
func testPeriods(t *testing.T, s subject) {
	format := schemas.DocumentFormat{StreamOf: KeepRules().StreamOf}
	events := s.events(1, 4)
	events[1].Envelope.Exchange = "ledger"
	events[2].Stream.ID = "order-3"
	events[3].Stream.ID, events[3].Action = "order-4", schemas.Handled
	streams := []schemas.Stream{schemas.Traffic, "traffic@forever", "traffic@730d", schemas.Traffic}
	docs := make([]schemas.Document, len(events))
	ids := make([]string, len(events))
	for i, event := range events {
		docs[i], ids[i] = format.Document(event), event.EventID
		if docs[i].Stream != streams[i] {
			t.Errorf("event %d is in %s, want %s", i+1, docs[i].Stream, streams[i])
		}
	}
	s.create(t, docs, eventstore.Created, eventstore.Created, eventstore.Created, eventstore.Created)
	again := s.create(t, docs, eventstore.Conflict, eventstore.Conflict, eventstore.Conflict, eventstore.Conflict)
	found := s.find(t, ids...)
	for i, id := range ids {
		stored := eventstore.DocumentID{Index: again[i].Index, ID: id}
		if s.sequences(t, stored)[stored] != int64(i+1) || found[id].ID != id {
			t.Errorf("event %d conflicts with %+v, and is found at %+v", i+1, stored, found[id])
		}
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	read := int64(0)
	for event, err := range s.Events(t.Context(), eventstore.Selection{Query: kql.FieldIs("watership.source", s.source), Order: eventstore.BySequence}) {
		if read++; err != nil || event.Sequence != read {
			t.Errorf("read event %d, %v, want %d", event.Sequence, err, read)
		}
	}
	if read != 4 {
		t.Errorf("read %d events", read)
	}
	strange := docs[0]
	strange.ID, strange.Stream = "strange", "traffic@24h"
	s.create(t, []schemas.Document{strange}, eventstore.Refused)
}
