package sqlite

import (
	"reflect"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Each stream has the retention in its name, whatever the rules are now, and a mark of its own.
func TestRetainPeriods(t *testing.T) {
	s := installed(t, Config{Retention: hourOfTraffic})
	now := time.Now()
	for i, of := range []struct {
		stream schemas.Stream
		age    time.Duration
	}{
		{schemas.Traffic, 90 * time.Minute},
		{schemas.Traffic, 30 * time.Minute},
		{"traffic@2h", 3 * time.Hour},
		{"traffic@2h", 90 * time.Minute},
		{"traffic@30d", 29 * 24 * time.Hour},
		{"traffic@forever", 10 * 365 * 24 * time.Hour},
	} {
		e := event("", i+1)
		e.Sequence = now.Add(-of.age).UnixMicro()
		doc := schemas.DocumentFormat{}.Document(e)
		doc.Stream = of.stream
		create(t, s, doc)
	}
	if removed, err := s.Retain(t.Context()); removed != 2 || err != nil {
		t.Fatalf("removed %d events, %v", removed, err)
	}
	removed, err := s.Removed(t.Context(), event("", 1).Source)
	want := eventstore.Marks{schemas.Traffic: now.Add(-90 * time.Minute).UnixMicro(), "traffic@2h": now.Add(-3 * time.Hour).UnixMicro()}
	if err != nil || !reflect.DeepEqual(removed.Marks, want) {
		t.Errorf("the marks are %v, %v, want %v", removed.Marks, err, want)
	}
	wantConsistent(t, s)
}

// Rules are noted once, also those with an empty label, which is not stored.
func TestRulesAreNotedOnce(t *testing.T) {
	s := installed(t, Config{Keep: eventstore.KeepRules{{Exchange: "ledger", Labels: map[string]string{}}}})
	read := func() eventstore.KeptBy {
		kept, err := eventstore.ReadKeepRules(t.Context(), s)
		if err != nil || len(kept.Rules) != 1 {
			t.Fatalf("the rules are %+v, %v", kept, err)
		}
		return kept
	}
	before := read()
	if _, err := s.Retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := read(); after.Since != before.Since {
		t.Errorf("the rules were applied since %d, then since %d", before.Since, after.Since)
	}
}
