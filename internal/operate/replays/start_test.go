package replays

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/replayer"
)

// start starts a replay as an operator without limits.
func (r *replaying) start(t *testing.T, key string, of Replay) (Job, error) {
	t.Helper()
	got, err := StartReplay.Call(operator(t, "ann"), r, StartInput{IdempotencyKey: operation.IdempotencyKey{Key: key}, Body: of})
	return got.Body, err
}

// jobs returns the jobs in the store.
func (r *replaying) jobs(t *testing.T) []Job {
	t.Helper()
	page, err := ListReplays.Call(operator(t, "ann"), r, JobsInput{})
	must(t, err)
	return page.Body.Jobs
}

func TestAStartCreatesAJobAndHasItRun(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	replay := toFailedQueue()
	replay.Reason, replay.Rate = "stock is back", 5
	job, err := r.start(t, "", replay)
	must(t, err)
	if job.State != replayer.Planned || job.Total != 1 || job.Operator != "ann" || job.Reason != "stock is back" || job.Rate != 5 || job.Target.Kind != "failed_queue" {
		t.Errorf("%+v", job)
	}
	if len(r.runs.started) != 1 || r.runs.started[0].ID != job.ID {
		t.Errorf("started %+v", r.runs.started)
	}
}

func TestARepeatedStartIsOneJob(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	first, err := r.start(t, "k-1", toFailedQueue())
	must(t, err)
	second, err := r.start(t, "k-1", toFailedQueue())
	must(t, err)
	if first.ID != second.ID || len(r.jobs(t)) != 1 {
		t.Errorf("jobs %s and %s", first.ID, second.ID)
	}
}

// The process that got the first request may have ended before it ran the job.
func TestARepeatedStartRunsAJobThatNobodyRuns(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	for range 2 {
		_, err := r.start(t, "k-1", toFailedQueue())
		must(t, err)
	}
	if len(r.runs.started) != 2 {
		t.Errorf("started %+v", r.runs.started)
	}
}

func TestARepeatedStartLeavesAJobThatHasBegun(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	job, err := r.start(t, "k-1", toFailedQueue())
	must(t, err)
	_, err = CancelReplay.Call(operator(t, "bob"), r, CancelInput{ID: job.ID})
	must(t, err)
	again, err := r.start(t, "k-1", toFailedQueue())
	must(t, err)
	if again.State != replayer.Cancelled || len(r.runs.started) != 1 {
		t.Errorf("%s, started %+v", again.State, r.runs.started)
	}
}

// The number is of the first request: what was recorded since would make it another one.
func TestARepeatedStartIsCountedAgain(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"))
	replay, one := toFailedQueue(), 1
	replay.Expect = &one
	first, err := r.start(t, "k-1", replay)
	must(t, err)
	systemtest.Record(t, r.sys, poisoned(queue, "m-2"))
	replay.Expect = nil
	if second, err := r.start(t, "k-1", replay); err != nil || second.ID != first.ID {
		t.Errorf("%+v, %v", second, err)
	}
}

func TestAKeyOfAnotherReplay(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	_, err := r.start(t, "k-1", toFailedQueue())
	must(t, err)
	other := toFailedQueue()
	other.Again = true
	_, err = r.start(t, "k-1", other)
	wantRefused(t, err, http.StatusUnprocessableEntity, "the Idempotency-Key was used for another request", "Send a new key with a new request.")
}

// A browser sends a form twice.
func TestTwoStartsAtOnceAreOneJob(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	var starting sync.WaitGroup
	ids, processes := [2]string{}, [2]*replaying{}
	for n := range ids {
		process := implement(r.sys, r.broker)
		processes[n] = process
		starting.Go(func() {
			job, err := process.start(t, "k-1", toFailedQueue())
			if err != nil {
				t.Error(err)
			}
			ids[n] = job.ID
		})
	}
	starting.Wait()
	if jobs := r.jobs(t); ids[0] != ids[1] || len(jobs) != 1 {
		t.Errorf("responses with jobs %q, stored: %+v", ids, jobs)
	}
	started := append(processes[0].runs.started, processes[1].runs.started...)
	if len(started) == 0 || slices.ContainsFunc(started, func(job replayer.Job) bool { return job.ID != ids[0] }) {
		t.Errorf("started: %+v", started)
	}
}

func TestAnotherNumberThanExpectedIsNotSent(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	replay, two := toFailedQueue(), 2
	replay.Expect = &two
	_, err := r.start(t, "", replay)
	wantRefused(t, err, http.StatusConflict, "1 message matches, 2 expected: nothing was changed", "Look at them again, and give their number.")
	if jobs := r.jobs(t); len(jobs) != 0 {
		t.Errorf("%+v", jobs)
	}
}

func TestAReplayToNowhereIsNotStarted(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned("gone", "m-1"), poisoned("gone", "m-2"))
	_, err := r.start(t, "", toFailedQueue())
	wantRefused(t, err, http.StatusConflict, "2 messages would reach no queue", "Bring the routes back, or go on with unchecked_routes.")
	if p := problem.New(t.Context(), err); p.Code != code.PlanRefused || len(r.jobs(t)) != 0 {
		t.Errorf("%s, jobs %+v", p.Code, r.jobs(t))
	}
}

func TestAReplayWithoutARecordIsNotStarted(t *testing.T) {
	r := newStored(t) // with an indexer, the plan would wait longer for the record
	must(t, pipeline.Declare(t.Context(), pipeline.Config{Connection: rabbitmq.Connection{URL: r.broker.URL}, Topology: r.sys.Topology()}))
	queue := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"))
	now := time.Now()
	save(t, r.sys, replayer.Job{
		ID: "other", Query: "*", State: replayer.Done, UpTo: 1, Total: 1, Sent: 1, Target: replayer.Target{Kind: replayer.ToFailedQueue},
		Created: now, Started: now, Updated: now, Ended: now,
	})
	_, err := r.start(t, "", toFailedQueue())
	wantRefused(t, err, http.StatusConflict, "nothing was sent: 1 message may have been sent before, which the store does not know yet", "See the plan of the same request.")
}

// Failures may have been handled since: a person sees the warning of a plan, and nobody that of a start without one.
func TestAReplayWhileNobodyStoresEventsIsNotStarted(t *testing.T) {
	r := newStored(t)
	must(t, pipeline.Declare(t.Context(), pipeline.Config{Connection: rabbitmq.Connection{URL: r.broker.URL}, Topology: r.sys.Topology()}))
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	r.broker.Publish(t, r.sys.Topology().Log(), amqp.Publishing{})
	_, err := r.start(t, "", toFailedQueue())
	wantRefused(t, err, http.StatusConflict, "nothing was sent: failures may have been handled or discarded in 1 event that the store does not have; run watership serve", "See the plan of the same request.")
	plan, err := PlanReplay.Call(operator(t, "ann"), r, PlanInput{toFailedQueue()})
	must(t, err)
	if started, err := StartReplay.Call(operator(t, "ann"), r, plan.Start("", toFailedQueue())); err != nil || started.Body.Total != 1 || len(plan.Body.Warnings) != 1 {
		t.Errorf("as it was shown with %q: %+v, %v", plan.Body.Warnings, started.Body, err)
	}
}

// The person has seen the plan: what was recorded meanwhile is not sent.
func TestAPlanIsStartedAsItWasShown(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"))
	plan, err := PlanReplay.Call(operator(t, "ann"), r, PlanInput{toFailedQueue()})
	must(t, err)
	systemtest.Record(t, r.sys, poisoned(queue, "m-2"))
	for name, shown := range map[string]PlanOutput{"in this process": plan, "in another one": {Body: plan.Body}} {
		started, err := StartReplay.Call(operator(t, "ann"), r, shown.Start("", toFailedQueue()))
		if err != nil || started.Body.Total != 1 {
			t.Errorf("%s: %+v, %v", name, started.Body, err)
		}
		_, err = CancelReplay.Call(operator(t, "ann"), r, CancelInput{ID: started.Body.ID})
		must(t, err)
	}
}

// What is refused starts nothing, also if the job of the key waits for somebody who runs it.
func TestARefusedStartRunsNoJob(t *testing.T) {
	r := newReplaying(t)
	systemtest.Record(t, r.sys, poisoned(r.broker.Queue(t, nil), "m-1"))
	_, err := r.start(t, "k-1", toFailedQueue())
	must(t, err)
	r.runs.started = nil
	limited := StartInput{IdempotencyKey: operation.IdempotencyKey{Key: "k-1"}, Body: toFailedQueue()}
	got, err := StartReplay.Call(operator(t, "ann", "another"), r, limited)
	wantRefused(t, err, http.StatusUnprocessableEntity, "or with other permissions", "Send a new key with a new request.")
	if got.Body.ID != "" || len(r.runs.started) > 0 {
		t.Errorf("%+v, started %+v", got, r.runs.started)
	}
}
