package replayer

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// slowStore makes more events visible after the job has read all events with their
// bodies.
type slowStore struct {
	Store
	read bool
	more func()
}

func (s *slowStore) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		s.Store.Events(ctx, selection)(yield)
		s.read = s.read || !selection.WithoutBody
	}
}

func (s *slowStore) Refresh(ctx context.Context) error {
	if s.read && s.more != nil {
		s.more()
		s.more = nil
	}
	return s.Store.Refresh(ctx)
}

// TestLateEvents: bulk requests commit out of order, so an event may become visible
// after later ones were sent.
func TestLateEvents(t *testing.T) {
	f := newFixture(t)
	events := f.storePublished(3)
	late, again := f.published(4), f.poisoned(1)
	late.Sequence = events[0].Sequence
	again.Sequence = events[1].Sequence
	beyond := f.published(5)
	f.sequence += 10
	f.storeEvents(f.event(schemas.Discarded, f.message(9))) // the highest sequence, outside the query
	beyond.Sequence = f.sequence + 100
	slow := &slowStore{Store: f.store, more: func() { f.storeEvents(late, again, beyond) }}
	f.cfg.Store = slow
	order := f.job("not event.action: discarded")
	job := f.run(order)
	wantJob(t, job, Done, 4, 0)
	if got := f.receivedIDs(f.queue); got != "m-1 m-2 m-3 m-4" {
		t.Errorf("arrived: %s", got)
	}
}

// TestLateEventsWhilePaused: if the cursor is invalid, the job's `replayed` events
// tell which messages were sent.
func TestLateEventsWhilePaused(t *testing.T) {
	f := newFixture(t)
	events := f.storePublished(20)
	nameless := f.event(schemas.Published, anonymous(f.message(21)))
	f.storeEvents(nameless, f.event(schemas.Published, anonymous(f.message(22))))
	job := f.create(f.job(""))
	job = f.resume(job, RunOptions{StopAfter: 21})
	wantJob(t, job, Paused, 21, 0)
	if len(f.indexLog()) != 21 {
		t.Fatal("a `replayed` event is missing")
	}
	late := f.published(0)
	late.Sequence = events[3].Sequence
	other := f.poisoned(1) // an earlier event of a message that was already sent
	other.Sequence = events[0].Sequence - 1
	f.storeEvents(late, other)
	job = f.resume(job, RunOptions{})
	wantJob(t, job, Done, 23, 0)
	got := strings.Fields(f.receivedIDs(f.queue))
	if len(got) != 21 || got[20] != "m-0" { // two messages have no id
		t.Errorf("arrived: %s", got)
	}
	if !job.CursorInvalid {
		t.Error("the cursor of the job is not marked as invalid")
	}
}

// TestLateEventsBeforeTheRecord: if the cursor is invalid and the job's `replayed`
// events are not stored yet, the job sends nothing.
func TestLateEventsBeforeTheRecord(t *testing.T) {
	f := newFixture(t)
	events := f.storePublished(20)
	job := f.resume(f.create(f.job("")), RunOptions{StopAfter: 10})
	late := f.published(0)
	late.Sequence = events[3].Sequence
	f.storeEvents(late)
	job, err := f.Run(t.Context(), job.ID, RunOptions{})
	if err == nil || !strings.Contains(err.Error(), "the record of 10 messages") {
		t.Errorf("the run ended with %v", err)
	}
	wantJob(t, job, Failed, 10, 0)
	f.indexLog()
	wantJob(t, f.resume(job, RunOptions{}), Done, 21, 0)
	got := strings.Fields(f.receivedIDs(f.queue))
	if len(got) != 21 || got[10] != "m-0" {
		t.Errorf("arrived: %s", got)
	}
}

// TestLateEventsAfterFailures: a restarted job tries failed messages again, and counts
// each once.
func TestLateEventsAfterFailures(t *testing.T) {
	f := newFixture(t)
	first, gone, last := f.published(1), f.published(2), f.published(3)
	gone.Envelope.Body, gone.BodyIn = nil, schemas.BodyInPublished // which the store does not have
	f.storeEvents(first, gone, last)
	job := f.resume(f.create(f.job("")), RunOptions{StopAfter: 2})
	wantJob(t, job, Paused, 1, 1)
	f.indexLog()
	late := f.published(0)
	late.Sequence = first.Sequence - 1
	f.storeEvents(late)
	job = f.resume(job, RunOptions{})
	wantJob(t, job, Done, 3, 1)
	if got := f.receivedIDs(f.queue); got != "m-1 m-0 m-3" || len(job.Failures) != 1 {
		t.Errorf("arrived: %s; not sent: %v", got, job.Failures)
	}
}

// TestCrashBeforeACheckpoint: the job's `replayed` events tell which messages were
// sent after the saved cursor.
func TestCrashBeforeACheckpoint(t *testing.T) {
	f := newFixture(t)
	f.storePublished(20)
	f.storeEvents(f.event(schemas.Published, anonymous(f.message(21))), f.event(schemas.Published, anonymous(f.message(22))))
	saved := f.resume(f.create(f.job("")), RunOptions{StopAfter: 4})
	job := f.resume(saved, RunOptions{StopAfter: 17})
	wantJob(t, job, Paused, 21, 0)
	if len(f.indexLog()) != 21 {
		t.Fatal("a `replayed` event is missing")
	}
	job.State, job.Sent, job.Cursor, job.Scanned = Running, saved.Sent, saved.Cursor, saved.Scanned
	if err := f.save(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	job = f.resume(job, RunOptions{})
	wantJob(t, job, Done, 22, 0)
	if got := f.broker.Len(t, f.queue); got != 22 {
		t.Errorf("%d messages arrived", got)
	}
	if replayed := f.indexLog(); len(replayed) != 1 {
		t.Errorf("%d more events", len(replayed))
	}
}
