package history

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/schemas"
)

// A consumer may fail before the event of the replay is stored. The failure is then the
// outcome of that replay, and not replayed by it.
func TestReplayThatFailsAtOnce(t *testing.T) {
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	var docs []schemas.Document
	for i, state := range []struct {
		action                         schemas.Action
		id, instance, replay, replayOf string
	}{
		{schemas.Poisoned, "first", "i-1", "", ""},
		{schemas.Poisoned, "second", "i-2", "job", "first"},
		{schemas.Replayed, "replay", "", "job", "first"},
	} {
		e := schemas.Event{Sequence: int64(i + 1), Action: state.action}
		e.EventID, e.Message, e.Replay, e.ReplayOf = state.id, state.instance, state.replay, state.replayOf
		e.Time, e.Queue, e.Fingerprint = begin.Add(time.Duration(i)*time.Second), "orders", "v1:a"
		e.Envelope.Properties.MessageID = "m"
		docs = append(docs, schemas.DocumentFormat{}.Document(e))
	}
	if _, err := store.Create(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	lives, err := Find(t.Context(), store, "m")
	if err != nil || len(lives.List) != 1 {
		t.Fatalf("%d messages, %v", len(lives.List), err)
	}
	queues, err := lives.List[0].Queues(t.Context(), store, nil)
	if err != nil || len(queues) != 1 || queues[0].State != QueueFailed || len(queues[0].Failures) != 1 || queues[0].Failures[0] != "second" {
		t.Errorf("%+v, %v", queues, err)
	}
}

// A message waits for the attempt to which an operator has moved it, until it fails again.
func TestWaitingUntilAnOperatorSays(t *testing.T) {
	begin := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	at := func(minute int, action schemas.Action, instance string, delay time.Duration) schemas.Event {
		e := schemas.Event{Action: action, Sequence: int64(minute)}
		e.Queue, e.Message, e.Time, e.Delay = "orders", instance, begin.Add(time.Duration(minute)*time.Minute), delay
		return e
	}
	failed, postponed := at(1, schemas.RetryScheduled, "i", time.Hour), at(2, schemas.Rescheduled, "i", 5*time.Hour)
	for name, test := range map[string]struct {
		since []schemas.Event
		want  time.Duration
	}{
		"nothing":            {nil, 61 * time.Minute},
		"postponed":          {[]schemas.Event{postponed}, 302 * time.Minute},
		"then at once":       {[]schemas.Event{postponed, at(3, schemas.Rescheduled, "i", 0)}, 3 * time.Minute},
		"another copy":       {[]schemas.Event{at(3, schemas.Rescheduled, "other", 0)}, 61 * time.Minute},
		"an earlier attempt": {[]schemas.Event{at(0, schemas.Rescheduled, "i", 9*time.Hour)}, 61 * time.Minute},
	} {
		l := Life{Events: append([]schemas.Event{failed}, test.since...)}
		if got := l.after(failed, Waiting, failed); got.State != QueueWaiting || !got.Until.Equal(begin.Add(test.want)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
