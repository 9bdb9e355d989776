package replays

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/replayer"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// save stores a job.
func save(t *testing.T, sys *system.System, job replayer.Job) {
	t.Helper()
	store, err := sys.Store(t.Context())
	must(t, err)
	document, err := json.Marshal(job)
	must(t, err)
	_, err = store.CreateJob(t.Context(), job.ID, document)
	must(t, err)
}

// newReplays returns the replayer of a System, and the System.
func newReplays(t *testing.T) (*replayer.Replayer, *system.System) {
	t.Helper()
	t.Parallel() // most of it is waiting
	sys, _ := systemtest.Embedded(t)
	replays, err := Replayer(t.Context(), sys)
	must(t, err)
	return replays, sys
}

// caller returns a context of a caller without limits.
func caller(t *testing.T, name string) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.Identity{Name: name, Method: access.ByToken, Role: access.Admin})
}

func TestTheJSONOfAJob(t *testing.T) {
	now := time.Now().UTC()
	job := replayer.Job{
		ID: "j", State: replayer.Paused, Query: "*", Operator: "ann", Reason: "fixed", Total: 5, Sent: 2, Failed: 1, Created: now, Updated: now,
		Target: replayer.Target{Kind: replayer.ToQueue, Queue: "q"}, DropReplyTo: true,
		Failures: []replayer.Failure{{EventID: "e", Message: "m", Cause: replayer.BodyNotStored, Reason: "no body"}},
	}
	got := NewJob(job)
	if got.ID != "j" || got.State != replayer.Paused || got.Running || !got.CanResume || got.Target.Queue != "q" || got.Changes.KeepReplyTo {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]SendFailure{{"e", "m", "no body", replayer.BodyNotStored}}, got.Failures); diff != "" {
		t.Error(diff)
	}
	if got.DSL != nil || got.Started != nil || got.Ended != nil {
		t.Errorf("it has not started: %+v", got)
	}
}

func TestTimesOfAJob(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	got := NewJob(replayer.Job{State: replayer.Done, Started: at, Ended: at.Add(time.Hour), DSL: json.RawMessage(`{}`)})
	if !got.Started.Equal(at) || !got.Ended.Equal(at.Add(time.Hour)) || got.DSL == nil {
		t.Errorf("%+v", got)
	}
}

// A job is resumed unless it has ended, or a process that is alive runs it.
func TestJobsThatCanBeResumed(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		state           replayer.State
		updated         time.Time
		resume, running bool
	}{
		"planned":       {replayer.Planned, now, true, false},
		"running":       {replayer.Running, now, false, true},
		"left by a run": {replayer.Running, now.Add(-time.Hour), true, false},
		"paused":        {replayer.Paused, now, true, false},
		"done":          {replayer.Done, now, false, false},
		"cancelled":     {replayer.Cancelled, now, false, false},
	} {
		if got := NewJob(replayer.Job{State: test.state, Updated: test.updated}); got.CanResume != test.resume || got.Running != test.running {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhyAJobThatHasEndedIsNotResumed(t *testing.T) {
	for state, want := range map[replayer.State]string{
		replayer.Cancelled: "job j is cancelled, which cannot be undone: start another replay", replayer.Done: "job j is done: there is nothing left to do",
	} {
		if got := EndedText(replayer.Job{ID: "j", State: state}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", state, got)
		}
	}
}

func TestTargetsTravelAsJSON(t *testing.T) {
	key := "k"
	for _, target := range []replayer.Target{
		{Kind: replayer.ToOrigin}, {Kind: replayer.ToFailedQueue}, {Kind: replayer.ToQueue, Queue: "q"}, {Kind: replayer.ToExchange, Exchange: "x", Key: &key},
	} {
		if got := TargetOf(target).Replayer(); !got.Equal(target) {
			t.Errorf("%+v, want %+v", got, target)
		}
	}
}

func TestChangesTravelAsJSON(t *testing.T) {
	changes := Changes{
		SetHeaders: []string{"a=1"}, RemoveHeaders: []string{"b"}, ClearHeaders: true, KeepHeaders: []string{"c"},
		SetProperties: []string{"type=x"}, RemoveProperties: []string{"app_id"}, KeepReplyTo: true,
	}
	if diff := cmp.Diff(changes, ChangesOf(replayer.Job{Changes: changes.Edits()})); diff != "" {
		t.Error(diff)
	}
}

// Headers to keep are those that stay when the others are removed.
func TestHeadersToKeepRemoveTheOthers(t *testing.T) {
	if !(Changes{KeepHeaders: []string{"c"}}).Edits().Clear {
		t.Error("the others stay")
	}
	if (Changes{}).Edits().Clear {
		t.Error("all headers are removed")
	}
}

func TestSchedulesTravelAsJSON(t *testing.T) {
	want := Schedule{
		Pace: 2, MaxGapSeconds: 1.5, InFlight: 3, Order: replayer.ByStream, OnFailure: replayer.GoOn,
		Ramp: &Ramp{First: 2, Percent: []float64{10, 50}, StopIf: []string{"failed > 2%", "failed timeout > 0"}, WaitSeconds: 5},
	}
	var job replayer.Job
	if err := want.Apply(&job); err != nil {
		t.Fatal(err)
	}
	if job.MaxGap != 1500*time.Millisecond {
		t.Errorf("%s", job.MaxGap)
	}
	if diff := cmp.Diff(want, ScheduleOf(job)); diff != "" {
		t.Error(diff)
	}
}

// To stop is what a stream does unless it is told otherwise, so jobs do not keep it.
func TestAStreamThatStopsIsTheDefault(t *testing.T) {
	var job replayer.Job
	if err := (Schedule{OnFailure: "stop"}).Apply(&job); err != nil || job.OnFailure != "" {
		t.Errorf("%q, %v", job.OnFailure, err)
	}
}

// A ramp without steps has the default ones, one without limits stops at any failure, and a mistake is one of the request.
func TestDefaultsOfRamps(t *testing.T) {
	var job replayer.Job
	for want, ramp := range map[string]Ramp{
		"[1 5 20 100] [failed > 2%]": {StopIf: []string{"failed > 2%"}}, "[50] [failed > 0]": {Percent: []float64{50}}, "[] [failed > 0]": {First: 3},
	} {
		if err := (Schedule{Ramp: &ramp}).Apply(&job); err != nil || fmt.Sprint(job.Ramp.Percent, job.Ramp.StopIf) != want {
			t.Errorf("%+v is %v %v, %v", ramp, job.Ramp.Percent, job.Ramp.StopIf, err)
		}
	}
	for _, wrong := range []Ramp{{StopIf: []string{"2%"}}, {Percent: []float64{20, 5}}} {
		if err := (Schedule{Ramp: &wrong}).Apply(&job); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestSchedulesInWords(t *testing.T) {
	for want, s := range map[string]Schedule{
		"": {},
		"sent with the spacing of the events, 2.5x as fast":                               {Pace: 2.5},
		"at most 1m30s between two messages":                                              {MaxGapSeconds: 90},
		"at most 7 in flight until their consumers report":                                {InFlight: 7},
		"each stream in order, as its messages are handled":                               {Order: replayer.ByStream},
		"each stream by its versions":                                                     {Order: replayer.ByVersion},
		"streams go on after a failure":                                                   {OnFailure: replayer.GoOn},
		"sent with the spacing of the events, 1x as fast|at most 1s between two messages": {Pace: 1, MaxGapSeconds: 1},
	} {
		if got := strings.Join(Words(s), "|"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestKeysOfRequests(t *testing.T) {
	ann, request := NewKey(caller(t, "ann"), "k-1", "a request"), "a request"
	if NewKey(caller(t, "ann"), "", request) != (Key{}) {
		t.Error("a request without a header has a key")
	}
	if NewKey(caller(t, "ann"), "k-1", request) != ann {
		t.Error("a repeated request has another key")
	}
	if other := NewKey(caller(t, "bob"), "k-1", request); other.Text == ann.Text || other.Digest != ann.Digest {
		t.Errorf("two callers share a key: %+v", other)
	}
	if other := NewKey(caller(t, "ann"), "k-1", "another"); other.Text != ann.Text || other.Digest == ann.Digest {
		t.Errorf("two requests are one: %+v", other)
	}
}

// keyedJobs are the jobs of a System, and the store that keeps their keys.
type keyedJobs struct {
	replays *replayer.Replayer
	store   system.EventStore
}

func newKeyedJobs(t *testing.T) keyedJobs {
	t.Helper()
	replays, sys := newReplays(t)
	store, err := sys.Store(t.Context())
	must(t, err)
	return keyedJobs{replays, store}
}

func (k keyedJobs) find(ctx context.Context, key Key) (replayer.Job, error) {
	return key.Find(ctx, k.store, k.replays)
}

// create creates the job of a request, whose plan has the id.
func (k keyedJobs) create(ctx context.Context, key Key, id string) (replayer.Job, error) {
	return key.Create(ctx, k.store, k.replays, replayer.Plan{Job: replayer.Job{ID: id, Query: "*"}})
}

func TestARepeatedRequestFindsItsJob(t *testing.T) {
	jobs, ctx := newKeyedJobs(t), caller(t, "ann")
	key := NewKey(ctx, "k-1", "a request")
	if job, err := jobs.find(ctx, key); err != nil || job.ID != "" {
		t.Errorf("%+v, %v", job, err)
	}
	_, err := jobs.create(ctx, Key{}, "other")
	must(t, err)
	_, err = jobs.create(ctx, key, "mine")
	must(t, err)
	if job, err := jobs.find(ctx, key); err != nil || job.ID != "mine" {
		t.Errorf("%+v, %v", job, err)
	}
	if job, err := jobs.find(ctx, Key{}); err != nil || job.ID != "" {
		t.Errorf("without a key: %+v, %v", job, err)
	}
}

func TestAKeyIsForgottenAfterADay(t *testing.T) {
	jobs, ctx := newKeyedJobs(t), caller(t, "ann")
	key := NewKey(ctx, "k-1", "a request")
	_, err := eventstore.SaveRecord(ctx, jobs.store, keyRecord, key.Text, "", keyed{Job: "old", Digest: key.Digest, Created: time.Now().Add(-KeyAge - time.Minute)})
	must(t, err)
	if job, err := jobs.find(ctx, key); err != nil || job.ID != "" {
		t.Errorf("%+v, %v", job, err)
	}
	for range 2 {
		if job, err := jobs.create(ctx, key, "new"); err != nil || job.ID != "new" {
			t.Errorf("%+v, %v", job, err)
		}
	}
}

func TestAKeyIsForOneRequest(t *testing.T) {
	jobs, ctx := newKeyedJobs(t), caller(t, "ann")
	key, other := NewKey(ctx, "k-1", "a request"), NewKey(ctx, "k-1", "another")
	_, err := jobs.create(ctx, key, "mine")
	must(t, err)
	const detail, remedy = "the Idempotency-Key was used for another request, or with other permissions", "Send a new key with a new request."
	_, err = jobs.find(ctx, other)
	wantRefused(t, err, http.StatusUnprocessableEntity, detail, remedy)
	_, err = jobs.create(ctx, other, "theirs")
	wantRefused(t, err, http.StatusUnprocessableEntity, detail, remedy)
	limited := access.NewContext(t.Context(), access.Identity{Name: "ann", Method: access.ByToken, Role: access.Admin, Queues: []string{"orders"}})
	_, err = jobs.find(limited, key)
	wantRefused(t, err, http.StatusUnprocessableEntity, detail, remedy)
	var none *replayer.NoJobError
	if _, err := jobs.replays.Job(ctx, "theirs"); !errors.As(err, &none) { // what is refused leaves no job that somebody could resume
		t.Error(err)
	}
}

// Two requests may both find no job, and then both create theirs.
func TestTwoRequestsWithAKeyCreateOneJob(t *testing.T) {
	jobs, ctx := newKeyedJobs(t), caller(t, "ann")
	key := NewKey(ctx, "k-1", "a request")
	for _, id := range []string{"a", "b"} {
		if job, err := jobs.create(ctx, key, id); err != nil || job.ID != "a" {
			t.Errorf("%s: %+v, %v", id, job, err)
		}
	}
}

// overtaken is a store in which another request comes first, between a look at a record and its creation.
type overtaken struct {
	eventstore.RecordStore
	other func()
}

func (s *overtaken) CreateRecord(ctx context.Context, kind, id string, document []byte) (string, error) {
	if s.other != nil {
		other := s.other
		s.other = nil
		other()
	}
	return s.RecordStore.CreateRecord(ctx, kind, id, document)
}

// Two requests may both find no record of the key, too.
func TestARequestThatIsOvertakenGetsTheOtherJob(t *testing.T) {
	jobs, ctx := newKeyedJobs(t), caller(t, "ann")
	key := NewKey(ctx, "k-1", "a request")
	store := &overtaken{jobs.store, func() {
		_, err := jobs.create(ctx, key, "a")
		must(t, err)
	}}
	if job, err := key.Create(ctx, store, jobs.replays, replayer.Plan{Job: replayer.Job{ID: "b", Query: "*"}}); err != nil || job.ID != "a" {
		t.Errorf("%+v, %v", job, err)
	}
}

// A process may end after it has reserved an id.
func TestAReservedIDIsOfTheNextRequest(t *testing.T) {
	jobs, ctx := newKeyedJobs(t), caller(t, "ann")
	key := NewKey(ctx, "k-1", "a request")
	_, err := key.reserve(ctx, jobs.store, "a")
	must(t, err)
	if job, err := jobs.find(ctx, key); err != nil || job.ID != "" {
		t.Errorf("%+v, %v", job, err)
	}
	if job, err := jobs.create(ctx, key, "b"); err != nil || job.ID != "a" {
		t.Errorf("%+v, %v", job, err)
	}
}

func TestARunnerThatHasStoppedStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := NewRunner(nil).Start(t.Context(), replayer.Job{ID: "j"}, 0)
		wantRefused(t, err, http.StatusServiceUnavailable, "the server is stopping, so job j was not started", "Resume the job.")
	})
}

// An error that leaves no trace in the job is in the log.
func TestAJobThatDoesNotStartIsLogged(t *testing.T) {
	sys, _ := systemtest.Embedded(t)
	runner := NewRunner(sys)
	ctx, stop := context.WithCancel(t.Context())
	var log bytes.Buffer
	var running sync.WaitGroup
	running.Go(func() { runner.Run(ctx, slog.New(slog.NewTextHandler(&log, nil))) })
	must(t, runner.Start(t.Context(), replayer.Job{ID: "nobody"}, 0))
	stop()
	running.Wait()
	if !strings.Contains(log.String(), "a job did not start: resume it") || !strings.Contains(log.String(), "job=nobody") {
		t.Errorf("%s", log.String())
	}
}

// noStarter remembers the jobs that it was asked to start.
type noStarter struct{ started []replayer.Job }

func (s *noStarter) Start(_ context.Context, job replayer.Job, _ int) error {
	s.started = append(s.started, job)
	return nil
}

func TestAJobIsResumedWithTheNumberThatWasShown(t *testing.T) {
	_, sys := newReplays(t)
	job := replayer.Job{ID: "j", State: replayer.Paused, Query: "*", Target: replayer.Target{Kind: replayer.ToOrigin}, Created: time.Now(), Total: 5, Sent: 1, Failed: 1}
	save(t, sys, job)
	runs := &noStarter{}
	o := operations{sys, runs}
	shown := 4
	in := &ResumeInput{ID: "j"}
	operation.Fill(&in.Body).Expect = &shown
	_, err := o.resumeReplay(caller(t, "ann"), in)
	var p *problem.Problem
	if !errors.As(err, &p) || p.Code != code.ExpectMismatch || p.Detail != "3 messages match, 4 expected: nothing was changed" || len(runs.started) != 0 {
		t.Errorf("%v, started %v", err, runs.started)
	}
	shown = 3
	if _, err := o.resumeReplay(caller(t, "ann"), in); err != nil || len(runs.started) != 1 {
		t.Errorf("%v, started %v", err, runs.started)
	}
}

// A canary could separate a message from the one that it waits for.
func TestNoPartsByVersion(t *testing.T) {
	_, sys := newReplays(t)
	save(t, sys, replayer.Job{ID: "j", State: replayer.Paused, Query: "*", Target: replayer.Target{Kind: replayer.ToOrigin}, Created: time.Now(), Order: replayer.ByVersion})
	runs := &noStarter{}
	o := operations{sys, runs}
	in := &ResumeInput{ID: "j"}
	operation.Fill(&in.Body).StopAfter = 1
	_, err := o.resumeReplay(caller(t, "ann"), in)
	wantParts(t, err)
	in.Body.StopAfter = 0
	if _, err := o.resumeReplay(caller(t, "ann"), in); err != nil || len(runs.started) != 1 {
		t.Errorf("%v, started %v", err, runs.started)
	}
	for name, parts := range map[string]Replay{"a canary": {StopAfter: 1}, "a limit": {Limit: 1}, "steps": {Schedule: Schedule{Ramp: &Ramp{First: 1}}}} {
		parts.Choice, parts.Target, parts.Order = eventfilter.Choice{IDs: []string{"m"}}, Target{Kind: string(replayer.ToOrigin)}, replayer.ByVersion
		t.Log(name)
		_, err := o.planReplay(caller(t, "ann"), &PlanInput{parts})
		wantParts(t, err)
	}
}

func wantParts(t *testing.T, err error) {
	t.Helper()
	var p *problem.Problem
	if !errors.As(err, &p) || p.Code != code.InvalidRequest || p.Detail != replayer.ErrPartsByVersion.Error() {
		t.Errorf("%v", err)
	}
}

// Other users of the store may change a job between its display and its run.
func TestAJobThatWasChangedSinceItWasShownIsNotRun(t *testing.T) {
	replays, sys := newReplays(t)
	shown := replayer.Job{ID: "j", State: replayer.Paused, Query: "*", Target: replayer.Target{Kind: replayer.ToOrigin}, Created: time.Now(), Total: 5, Sent: 1}
	changed := shown
	changed.Query = "queue: orders"
	save(t, sys, changed)
	ran, err := ByWatcher{}.Watch(t.Context(), sys, shown, 0, func(replayer.Job) {})
	if err == nil || !strings.Contains(err.Error(), "was changed since it was shown") || ran.Sent != 1 {
		t.Errorf("%+v, %v", ran, err)
	}
	if job, err := replays.Job(t.Context(), "j"); err != nil || job.State != replayer.Paused {
		t.Errorf("%+v, %v", job, err)
	}
}
