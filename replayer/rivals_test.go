package replayer

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// TestReplayedMeanwhile: of two concurrent replays of the same messages, the second to
// be planned or started leaves out the messages of the first.
func TestReplayedMeanwhile(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	f.storePublished(6)
	f.storeEvents(f.poisoned(6))
	order := f.job("event.action: published")
	job := f.create(order)
	other := order
	other.Operator = "bob@host"
	plan := f.plan(other) // before the first replay
	created, err := f.Create(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	f.resume(job, RunOptions{StopAfter: 4})
	f.indexLog()
	job, err = f.Job(t.Context(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	sends := func() { // as if it still ran
		t.Helper()
		job.State = Running
		if err := f.save(t.Context(), &job); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]int{
		"messaging.message.id: (m-5 or m-6 or m-1)": 2, "messaging.message.id: m-9": 0,
		"event.action: poisoned": 1, // events that the other query does not match, of messages it has
	} {
		order := f.job(text)
		sends()
		plan := f.plan(order)
		left := plan.LeftOut[OtherJobSending]
		if plan.Matched != 0 || left != want || len(plan.Rivals) != min(want, 1) || len(plan.Job.LeaveOut) != min(want, 1) {
			t.Errorf("%s: %d to send, left out %v, rivals %+v", text, plan.Matched, plan.LeftOut, plan.Rivals)
		}
		order.Again = true
		sends()
		plan = f.plan(order)
		if left := plan.LeftOut[OtherJobSending]; left != 0 || len(plan.Job.LeaveOut) != 0 || len(plan.Rivals) != min(want, 1) {
			t.Errorf("%s again: %d to send, left out %v, rivals %+v", text, plan.Matched, plan.LeftOut, plan.Rivals)
		}
	}
	apart := f.job("event.action: published")
	apart.Target = Target{Kind: ToQueue, Queue: f.queue}
	if plan := f.plan(apart); plan.Matched != 6 {
		t.Errorf("to another target: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	sends()
	ran := f.resume(created, RunOptions{})
	wantJob(t, ran, Done, 0, 0)
	if ran.Skipped != 6 {
		t.Errorf("%d left out", ran.Skipped)
	}
	wantJob(t, f.resume(job, RunOptions{}), Done, 6, 0)
	if got := f.receivedIDs(f.queue); got != "m-1 m-2 m-3 m-4 m-5 m-6" {
		t.Errorf("arrived: %s", got)
	}
}

// TestRivalsLeaveNothingToEachOther: a job that is paused after its first messages sends the
// rest, while another one runs that left all of them to it.
func TestRivalsLeaveNothingToEachOther(t *testing.T) {
	t.Parallel() // most of it is waiting
	for name, isPlannedLater := range map[string]bool{"planned at once": false, "planned later": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.storePublished(6)
			first := f.create(f.job(""))
			second := first
			if !isPlannedLater {
				second = f.create(f.job(""))
			}
			first = f.resume(first, RunOptions{StopAfter: 1}) // its event is not stored yet
			if isPlannedLater {
				second = f.create(f.job(""))
			}
			ran := f.resume(second, RunOptions{})
			wantJob(t, ran, Done, 0, 0)
			ran.State = Running // as if it still ran
			if err := f.save(t.Context(), &ran); err != nil {
				t.Fatal(err)
			}
			f.indexLog()
			wantJob(t, f.resume(first, RunOptions{}), Done, 6, 0)
			if got := f.receivedIDs(f.queue); got != "m-1 m-2 m-3 m-4 m-5 m-6" {
				t.Errorf("arrived: %s", got)
			}
		})
	}
}

// TestCancelledWhileItStarts: a cancellation while a job looks for others ends it.
func TestCancelledWhileItStarts(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	f.storePublished(6)
	first, second := f.create(f.job("")), f.create(f.job(""))
	f.resume(first, RunOptions{StopAfter: 1})
	f.Replayer.jobs.store = &cancellingJobs{jobStore: f.Replayer.jobs.store, cancel: func() {
		if _, err := f.Cancel(context.WithoutCancel(t.Context()), second.ID, "bob"); err != nil {
			t.Error(err)
		}
	}}
	job, err := f.Run(t.Context(), second.ID, RunOptions{})
	if job.State != Cancelled || job.Skipped > 0 || err == nil || !strings.Contains(err.Error(), "was cancelled") {
		t.Errorf("%+v, %v", job, err)
	}
}

type jobStore = Jobs

// cancellingJobs does something when jobs are listed for the first time.
type cancellingJobs struct {
	jobStore
	once   sync.Once
	cancel func()
}

func (j *cancellingJobs) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	j.once.Do(j.cancel)
	return j.jobStore.Jobs(ctx)
}

// TestRivalWithManyEqualMessages: the common messages with a rival are found in
// bounded memory, however many equal messages without an id there are.
func TestRivalWithManyEqualMessages(t *testing.T) {
	f := newFixture(t)
	tick := anonymous(f.message(1))
	f.storeEvents(f.event(schemas.Poisoned, tick))
	f.resume(f.create(f.job("")), RunOptions{}) // none of its `replayed` events are stored
	store := &repeatingStore{Store: f.store, times: 200_000}
	f.cfg.Store = store
	plan := f.plan(f.job(""))
	if plan.Matched != 0 || len(plan.Rivals) != 1 {
		t.Errorf("%d to send, left out %v, rivals %+v", plan.Matched, plan.LeftOut, plan.Rivals)
	}
	if !store.measured || store.grown > 50<<20 {
		t.Errorf("memory grows by %d MiB", store.grown>>20)
	}
}

// repeatingStore yields each summary of some messages many times, and measures the
// growth of the heap.
type repeatingStore struct {
	Store
	times    int
	measured bool
	grown    int64
}

func (s *repeatingStore) Summaries(ctx context.Context, selection eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	facts := s.Store.Summaries(ctx, selection, either...)
	if selection.Limit > 0 || len(either) == 0 || either[0].Field != "watership.fingerprint" {
		return facts
	}
	return func(yield func(eventstore.EventSummary, error) bool) {
		before := heap()
		facts(func(fact eventstore.EventSummary, err error) bool {
			for range s.times {
				if !yield(fact, err) {
					return false
				}
			}
			return true
		})
		s.measured, s.grown = true, max(s.grown, heap()-before)
	}
}

func heap() int64 {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}

// TestTwoAtOnce: two jobs start in the same moment, and each message is sent once.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, broker rabbittest.Broker) {
		f := newFixtureOn(t, broker)
		const many = 2000
		f.storePublished(many)
		runners := []*Replayer{f.secondReplayer(f.broker.URL), f.secondReplayer(f.broker.URL), f.Replayer}
		ran := make(chan Job, len(runners))
		failed := make(chan error, len(runners))
		created := []Job{f.create(f.job("")), f.create(f.job("")), f.create(f.job(""))}
		for i, r := range runners {
			go func() {
				job, err := r.Run(context.WithoutCancel(t.Context()), created[i].ID, RunOptions{})
				ran <- job
				failed <- err
			}()
		}
		sent, skipped := 0, 0
		for range runners {
			job := rabbittest.Receive(t, ran)
			if err := rabbittest.Receive(t, failed); err != nil || job.State != Done {
				t.Errorf("a job ended %s: %v", job.State, err)
			}
			sent, skipped = sent+job.Sent, skipped+job.Skipped
		}
		if sent != many || skipped != 2*many {
			t.Errorf("%d were sent and %d left out, want %d and %d", sent, skipped, many, 2*many)
		}
		if got := f.broker.Len(t, f.queue); got != many {
			t.Errorf("%d messages arrived", got)
		}
	})
}

// TestRecordNotStoredYet: messages sent by another job are left out before its
// `replayed` events are stored, too.
func TestRecordNotStoredYet(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixtureOn(t, rabbittest.Newest(t))
	f.storePublished(5)
	order := f.job("")
	first := f.run(order)
	wantJob(t, first, Done, 5, 0)
	plan := f.plan(order)
	if plan.Matched != 0 || plan.Unrecorded() != 5 || !slices.Equal(plan.Job.LeaveOut, []string{first.ID}) || plan.Rivals[0].Unrecorded != 5 {
		t.Errorf("%d to send, left out %v, rivals %+v", plan.Matched, plan.LeftOut, plan.Rivals)
	}
	if log := plan.Log; log.Events == 0 || log.Consumers != 0 {
		t.Errorf("the log: %+v", log)
	}
	again := order
	again.Again = true
	if plan := f.plan(again); plan.Matched != 5 || plan.Unrecorded() != 0 {
		t.Errorf("again: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	created, err := f.Create(t.Context(), plan) // it leaves them out even after they are recorded
	if err != nil {
		t.Fatal(err)
	}
	f.indexLog()
	wantJob(t, f.resume(created, RunOptions{}), Done, 0, 0)
	if plan := f.plan(order); plan.Matched != 0 || plan.LeftOut[AlreadyReplayed] != 10 || plan.Unrecorded() != 0 {
		t.Errorf("after the events were stored: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	if got := f.broker.Len(t, f.queue); got != 5 {
		t.Errorf("%d messages arrived", got)
	}
}

// TestPlanWaitsForTheRecord: a plan waits while an indexer stores the `replayed`
// events, also if it is not there for a moment.
func TestPlanWaitsForTheRecord(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	f.storePublished(5)
	wantJob(t, f.run(f.job("event.sequence <= "+fmt.Sprint(f.sequence-2))), Done, 3, 0)
	looks := 0
	f.logIs(func() Log {
		if looks++; looks == 1 {
			return Log{Events: 3} // the indexer connects again
		}
		if looks == 3 {
			f.indexLog()
		}
		return Log{Consumers: 1}
	})
	f.recordTimeout = rabbittest.Timeout
	began := time.Now()
	f.now = func() time.Time { return began }
	if plan := f.plan(f.job("")); plan.Matched != 2 || plan.LeftOut[AlreadyReplayed] != 6 || len(plan.Rivals) != 0 {
		t.Errorf("%d to send, left out %v", plan.Matched, plan.LeftOut)
	}
}

// TestRecordOfAnInterruptedJob: a killed job could not count its last messages, and
// events in the log may be theirs.
func TestRecordOfAnInterruptedJob(t *testing.T) {
	f := newFixture(t)
	f.storePublished(5)
	job := f.resume(f.create(f.job("")), RunOptions{StopAfter: 3})
	job.State, job.Sent, job.Cursor, job.Scanned = Running, 0, eventstore.Cursor{}, 0 // killed before its first save
	if err := f.save(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(2 * heartbeatTimeout)
	f.now = func() time.Time { return later }
	if plan := f.plan(f.job("")); plan.Matched != 0 || plan.Unrecorded() != 5 {
		t.Errorf("%d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	f.indexLog()
	if plan := f.plan(f.job("")); plan.Matched != 2 || plan.LeftOut[AlreadyReplayed] != 6 { // with their `replayed` events
		t.Errorf("with an empty log: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
}

// TestOldRecords: a plan does not wait for events past their retention, or for old
// ones while the log is empty.
func TestOldRecords(t *testing.T) {
	f := newFixture(t)
	f.storePublished(5)
	wantJob(t, f.run(f.job("")), Done, 5, 0)
	f.drain(f.cfg.Topology.Log()) // the events are lost
	now := time.Now()
	for name, test := range map[string]struct {
		age       time.Duration
		waiting   int
		retention time.Duration
		want      int
	}{
		"just now":                            {time.Minute, 0, 0, 0},
		"before, while nothing waits":         {2 * time.Hour, 0, 0, 5},
		"before, while something waits":       {2 * time.Hour, 1, 0, 0},
		"past its retention":                  {2 * time.Hour, 1, time.Hour, 5},
		"so long ago that nobody looks at it": {31 * 24 * time.Hour, 1, 0, 5},
	} {
		f.now = func() time.Time { return now.Add(test.age) }
		f.logIs(func() Log { return Log{Events: test.waiting} })
		f.cfg.Retention = test.retention
		if plan := f.plan(f.job("")); plan.Matched != test.want {
			t.Errorf("%s: %d to send, left out %v", name, plan.Matched, plan.LeftOut)
		}
	}
}

// TestJobThatCannotBeRead: an unreadable job is reported, and others can still be
// planned.
func TestJobThatCannotBeRead(t *testing.T) {
	f := newFixture(t)
	f.storePublished(1)
	known := f.plan(f.job("")).Unreadable
	for i, document := range []string{`["no job"]`, `{"query": "(", "created": "2999-01-01T00:00:00Z", "target": {"kind": "origin"}}`} {
		if _, err := f.store.CreateJob(t.Context(), fmt.Sprint(f.source, "-unreadable-", i), []byte(document)); err != nil {
			t.Fatal(err)
		}
	}
	if plan := f.plan(f.job("")); plan.Matched != 1 || plan.Unreadable != known+2 {
		t.Errorf("%d to send, %d jobs cannot be read", plan.Matched, plan.Unreadable-known)
	}
	read := 0
	for _, err := range f.Jobs(t.Context()) {
		if err != nil && strings.Contains(err.Error(), "cannot be read") {
			read++
		}
	}
	if read == 0 {
		t.Error("the unreadable job was returned")
	}
}
