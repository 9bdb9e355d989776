package schemas_test

import (
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// An event that cannot be is refused with the field, and with its name in headers where
// it came in one.
func TestCheckNamesTheField(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for want, spoil := range map[string]func(*schemas.Event){
		"the event has no id (watership-event-id)":                                                       func(e *schemas.Event) { e.EventID = "" },
		"the event's id (watership-event-id) is none: expected UTF-8 of at most 512 bytes":               func(e *schemas.Event) { e.EventID = strings.Repeat("x", 513) },
		"the event has no action":                                                                        func(e *schemas.Event) { e.Action = "" },
		"the event has no time":                                                                          func(e *schemas.Event) { e.Time = time.Time{} },
		"the event has no fingerprint (watership-fingerprint)":                                           func(e *schemas.Event) { e.Fingerprint = "" },
		"the event's fingerprint (watership-fingerprint) is none: expected UTF-8 of at most 256 bytes":   func(e *schemas.Event) { e.Fingerprint = "\xff" },
		`event "01K": event.sequence is negative`:                                                        func(e *schemas.Event) { e.Sequence = -1 },
		`event "01K": event.sequence is a time in microseconds, and 1777950121000001 is more than a day`: func(e *schemas.Event) { e.Sequence = now.Add(24*time.Hour).UnixMicro() + 1 },
	} {
		event := wiretest.GoldenEvent()
		if err := event.Check(now); err != nil {
			t.Fatal(err)
		}
		spoil(&event)
		if err := event.Check(now); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The greatest values are accepted.
func TestCheckAcceptsTheLimits(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	event := wiretest.GoldenEvent()
	event.EventID, event.Fingerprint = strings.Repeat("é", 512/2), strings.Repeat("f", 256)
	event.Sequence = now.Add(24 * time.Hour).UnixMicro()
	if err := event.Check(now); err != nil {
		t.Error(err)
	}
}

// An id has its sequence once: moved to another place it has the new one, and an id
// without a sequence stays.
func TestSequencesInIDs(t *testing.T) {
	event := wiretest.GoldenEvent()
	if moved := event.WithSequence(7); moved.EventID != "01K" || moved.Sequence != 7 {
		t.Errorf("without a sequence in its id: %q at %d", moved.EventID, moved.Sequence)
	}
	unique := event.WithSequence(5).WithUniqueID()
	for _, sequence := range []int64{6, 5, 0, 1 << 53} {
		moved := unique.WithSequence(sequence).WithSequence(8)
		if moved.EventID != "01K:8" || moved.Sequence != 8 || moved.IDFromContent() {
			t.Errorf("by way of %d: %q at %d", sequence, moved.EventID, moved.Sequence)
		}
	}
}
