package replays

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// cancel cancels a job for a reason.
func (r *replaying) cancel(t *testing.T, by, id, reason string) (Job, error) {
	t.Helper()
	in := CancelInput{ID: id}
	if reason != "" {
		operation.Fill(&in.Body).Reason = reason
	}
	got, err := CancelReplay.Call(operator(t, by), r, in)
	return got.Body, err
}

func TestACancelledJobSaysWhoAndWhy(t *testing.T) {
	r := newStored(t, replayer.Job{ID: "1", State: replayer.Paused, Query: "*"}, replayer.Job{ID: "2", State: replayer.Planned, Query: "*"})
	for id, want := range map[string]string{"1": "by ann: nobody listens", "2": "by ann"} {
		_, reason, _ := strings.Cut(want, ": ")
		if job, err := r.cancel(t, "ann", id, reason); err != nil || job.State != replayer.Cancelled || job.Problem != want || job.CanResume {
			t.Errorf("%+v, %v", job, err)
		}
	}
}

func TestAJobIsCancelledOnce(t *testing.T) {
	r := newStored(t, replayer.Job{ID: "j", State: replayer.Paused, Query: "*"})
	_, err := r.cancel(t, "ann", "j", "first")
	must(t, err)
	if job, err := r.cancel(t, "bob", "j", "second"); err != nil || job.Problem != "by ann: first" {
		t.Errorf("%+v, %v", job, err)
	}
}

func TestAJobThatIsDoneIsNotCancelled(t *testing.T) {
	_, err := newStored(t, replayer.Job{ID: "j", State: replayer.Done, Query: "*"}).cancel(t, "ann", "j", "")
	wantRefused(t, err, http.StatusConflict, "job j is done: there is nothing left to cancel", "")
}

func TestAJobThatHasEndedIsNotResumed(t *testing.T) {
	r := newStored(t, replayer.Job{ID: "1", State: replayer.Done, Query: "*"}, replayer.Job{ID: "2", State: replayer.Cancelled, Query: "*"})
	for id, want := range map[string]string{
		"1": "job 1 is done: there is nothing left to do",
		"2": "job 2 is cancelled, which cannot be undone: start another replay for the messages that it has not sent",
	} {
		_, err := ResumeReplay.Call(operator(t, "ann"), r, ResumeInput{ID: id})
		wantRefused(t, err, http.StatusConflict, want, "")
	}
	if len(r.runs.started) != 0 {
		t.Errorf("started %+v", r.runs.started)
	}
}

// A job is resumed within the limits of who resumes it, which may be others than those of who started it.
func TestAJobWithATargetThatTheCallerMayNotUseIsNotResumed(t *testing.T) {
	r := newReplaying(t)
	orders := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(orders, "m-1"))
	replay := toFailedQueue()
	replay.Target, replay.UncheckedRoutes = Target{Kind: "queue", Queue: "repair"}, true
	both := access.Identity{Name: "ann", Method: access.ByToken, Role: access.Operator, Queues: []string{orders, "repair"}}
	started, err := StartReplay.Call(access.NewContext(t.Context(), both), r, StartInput{Body: replay})
	must(t, err)
	_, err = ResumeReplay.Call(operator(t, "bob", orders), r, ResumeInput{ID: started.Body.ID})
	wantRefused(t, err, http.StatusNotFound, "there is no job", "GET /replays lists them.")
}

// halfReported stores a job with two messages that were sent, of which a queue has handled one.
func halfReported(t *testing.T) *replaying {
	t.Helper()
	r := newStored(t, replayer.Job{ID: "j", State: replayer.Paused, Query: "*", Total: 2, Sent: 2, UpTo: 2, Target: replayer.Target{Kind: replayer.ToOrigin}})
	one, two := poisoned("orders", "m-1"), poisoned("mail", "m-2")
	of := func(e schemas.Event, action schemas.Action) schemas.Event {
		e.EventID, e.Action, e.Failure = string(action)+"-"+e.EventID, action, schemas.Failure{}
		e.Replay, e.ReplayOf = "j", "failure-"+e.Envelope.Properties.MessageID
		return e
	}
	systemtest.Record(t, r.sys, one, two, of(one, schemas.Replayed), of(two, schemas.Replayed), of(one, schemas.Handled))
	return r
}

func TestOutcomesOfAJob(t *testing.T) {
	got, err := GetOutcomes.Call(operator(t, "ann"), halfReported(t), JobInput{"j"})
	must(t, err)
	want := Outcomes{Sent: 2, Handled: 1, Pending: 1, Problems: []string{}, NotReported: []string{"mail"}, PendingIDs: []string{"failure-m-2"}}
	if diff := cmp.Diff(want, got.Body); diff != "" {
		t.Error(diff)
	}
}

// watch has a watcher of a job read what is written.
func (r *replaying) watch(t *testing.T, id string, read func(text string)) {
	t.Helper()
	stream, err := WatchReplay.Call(operator(t, "ann"), r, JobInput{id})
	must(t, err)
	request := httptest.NewRequestWithContext(operator(t, "ann"), http.MethodGet, "/", nil)
	stream.Body(humago.NewContext(&huma.Operation{}, request, reader{httptest.NewRecorder(), read}))
}

// reader is a response whose parts are read as they are written.
type reader struct {
	*httptest.ResponseRecorder
	read func(text string)
}

func (reader) SetWriteDeadline(time.Time) error { return nil }

func (r reader) Write(data []byte) (int, error) {
	r.read(string(data))
	return len(data), nil
}

func TestAWatcherOfAJobThatHasStoppedSeesItOnce(t *testing.T) {
	r, got := newStored(t, replayer.Job{ID: "j", State: replayer.Paused, Query: "*", Updated: time.Now()}), ""
	r.watch(t, "j", func(text string) { got += text })
	if strings.Count(got, "event: job\n") != 1 || !strings.Contains(got, `"state":"paused"`) {
		t.Error(got)
	}
}

// Two operators: one watches a job while the other one cancels it.
func TestAWatcherSeesAJobUntilItStops(t *testing.T) {
	r, got := newStored(t, replayer.Job{ID: "j", State: replayer.Planned, Query: "*", Updated: time.Now()}), ""
	r.watch(t, "j", func(text string) {
		if got += text; strings.Contains(text, `"state":"planned"`) {
			_, err := r.cancel(t, "bob", "j", "")
			must(t, err)
		}
	})
	if strings.Count(got, "event: job\n") != 2 || !strings.Contains(got, `"problem":"by bob"`) {
		t.Error(got)
	}
}

// running runs the jobs that a Runner is asked for, until the test ends.
func running(t *testing.T, r *replaying) *Runner {
	t.Helper()
	runner := NewRunner(r.sys)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() { runner.Run(ctx, slog.New(slog.DiscardHandler)) })
	t.Cleanup(func() { stop(); group.Wait() })
	return runner
}

func TestARunnerSendsTheMessagesOfAJob(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"), poisoned(queue, "m-2"))
	_, err := r.start(t, "", toFailedQueue())
	must(t, err)
	must(t, running(t, r).Start(t.Context(), r.runs.started[0], 0))
	if d := r.broker.Take(t, queue, 2); d[0].MessageId != "m-1" || d[1].MessageId != "m-2" {
		t.Errorf("%s %s", d[0].MessageId, d[1].MessageId)
	}
}

func TestARunnerLeavesAJobToItsOtherProcess(t *testing.T) {
	r := newStored(t)
	err := running(t, r).Start(t.Context(), replayer.Job{ID: "j", State: replayer.Running, Updated: time.Now()}, 0)
	wantRefused(t, err, http.StatusConflict, "job j is run by another process", "Wait until it ends, or cancel the job.")
}

// A command without a server runs its job while it watches.
func TestAWatcherRunsItsJob(t *testing.T) {
	r := newReplaying(t)
	queue := r.broker.Queue(t, nil)
	systemtest.Record(t, r.sys, poisoned(queue, "m-1"), poisoned(queue, "m-2"))
	_, err := r.start(t, "", toFailedQueue())
	must(t, err)
	must(t, ByWatcher{}.Start(t.Context(), r.runs.started[0], 0))
	var seen replayer.Job
	ran, err := ByWatcher{}.Watch(t.Context(), r.sys, r.runs.started[0], 1, func(job replayer.Job) { seen = job })
	if err != nil || ran.State != replayer.Paused || ran.Sent != 1 || seen.Sent != 1 {
		t.Errorf("%+v, shown %+v, %v", ran, seen, err)
	}
	if d := r.broker.Take(t, queue, 1); d[0].MessageId != "m-1" {
		t.Errorf("%+v", d)
	}
}
