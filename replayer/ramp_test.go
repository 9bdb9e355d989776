package replayer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// index consumes the log and stores the events of runs as serve does, until stop is called.
func (r *reporter) index() (stop func()) {
	ch := r.f.broker.Channel(r.f.t)
	deliveries, err := ch.Consume(r.f.cfg.Topology.Log(), "", false, false, false, false, nil)
	if err != nil {
		r.f.t.Fatal(err)
	}
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case d := <-deliveries:
				r.mu.Lock() // while the consumer makes no events
				r.f.index(d)
				r.mu.Unlock()
				if err := d.Ack(false); err != nil {
					r.f.t.Error(err)
				}
			case <-done:
				return
			}
		}
	})
	return func() { close(done); work.Wait(); _ = ch.Close() }
}

// newRamp returns a fixture with so many messages and a consumer that reports, and a job with a ramp.
func newRamp(t *testing.T, messages int, ramp Ramp) (*fixture, *reporter, Job) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storePublished(messages)
	consumer := newReporter(t, f, f.queue)
	job := f.job("event.action: published")
	job.Ramp = ramp
	return f, consumer, f.create(job)
}

func limits(texts ...string) (parsed []Limit) {
	for _, text := range texts {
		limit, err := ParseLimit(text)
		if err != nil {
			panic(err)
		}
		parsed = append(parsed, limit)
	}
	return parsed
}

// stopped runs a job that its ramp pauses.
func (f *fixture) stopped(job Job, why string) Job {
	f.t.Helper()
	ran, err := f.Run(f.t.Context(), job.ID, RunOptions{})
	if err == nil || !strings.Contains(err.Error(), why) || ran.State != Paused || ran.Problem != err.Error() {
		f.t.Fatalf("%v: the job is %s (%s), want it paused with %q", err, ran.State, ran.Problem, why)
	}
	return ran
}

// Of 10,000 messages of which 5 % fail, a hundredth is sent. A resume accepts that and goes on, and the next step
// is judged by itself.
func TestRampStopsAtFailures(t *testing.T) {
	t.Parallel() // most of it is waiting
	f, consumer, job := newRamp(t, 10_000, Ramp{Percent: []float64{1, 2, 20, 100}, StopIf: limits("failed > 2%")})
	f.recordTimeout = rabbittest.Timeout
	defer consumer.index()()
	for n := 20; n <= 10_000; n += 20 {
		consumer.fails[fmt.Sprint("m-", n)] = true
	}
	ran := f.stopped(job, "stopped after the first 100 messages: failed > 2%: ")
	wantJob(t, ran, Paused, 100, 0)
	ran = f.stopped(job, "stopped after the first 200 messages: failed > 2%: ")
	wantJob(t, ran, Paused, 200, 0)
	rabbittest.Eventually(t, "200 arrive", func() bool { return len(consumer.ids()) == 200 })
	first, second := ran.Steps[0], ran.Steps[1]
	if first.End != 100 || first.Sent != 100 || first.Failed <= 2 || first.Failed > 5 || second.End != 200 || second.Sent != 100 || second.Failed <= 2 || second.Problem == "" {
		t.Errorf("%+v", ran.Steps)
	}
}

// Steps follow one another while their messages are handled, and failures of other classes do not count.
func TestRampGoesOn(t *testing.T) {
	f, consumer, job := newRamp(t, 40, Ramp{First: 2, Percent: []float64{10, 50}, StopIf: limits("failed timeout > 0", "failed > 1")})
	defer consumer.index()()
	consumer.fails["m-3"] = true
	ran := f.resume(job, RunOptions{})
	wantJob(t, ran, Done, 40, 0)
	var ends []int
	for _, step := range ran.Steps {
		ends = append(ends, step.End)
	}
	if fmt.Sprint(ends) != "[2 4 20]" || ran.Steps[1].Failed != 1 || ran.Steps[2].Handled != 16 {
		t.Errorf("%+v", ran.Steps)
	}
	consumer.mu.Lock()
	defer consumer.mu.Unlock()
	if consumer.most > 20 {
		t.Errorf("%d messages were sent before there was an outcome", consumer.most)
	}
}

// Failures are counted by class, and those that come while a step is sent end it.
func TestRampStopsWhileItSends(t *testing.T) {
	f, consumer, job := newRamp(t, 200, Ramp{Percent: []float64{100}, StopIf: limits("failed timeout > 0")})
	defer consumer.index()()
	consumer.fails["m-2"], consumer.class = true, "timeout"
	job.Rate = 5
	if err := f.save(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	ran := f.stopped(job, "failed timeout > 0: 1 of 200 messages failed with the class timeout")
	if ran.Sent < 2 || ran.Sent > 190 || ran.Steps[0].Failed != 1 || ran.Steps[0].Sent != ran.Sent {
		t.Errorf("sent %d: %+v", ran.Sent, ran.Steps)
	}
}

// Messages that cannot be sent stop a step while it is sent: nothing judges the last one afterwards.
func TestRampStopsAtMessagesThatCannotBeSent(t *testing.T) {
	f, consumer, job := newRamp(t, 200, Ramp{StopIf: limits("failed > 8")})
	defer consumer.index()()
	job.Rate, job.Transform = 5, `if tojson | test("\"m-[1-9]\"") then error("no") else . end`
	if err := f.save(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	if ran := f.stopped(job, "failed > 8: 9 of 200 messages failed"); ran.Failed != 9 || ran.Steps[0].Failed != 9 {
		t.Errorf("failed %d: %+v", ran.Failed, ran.Steps)
	}
}

// The step after a resume is judged by itself, so it begins when what was sent before is recorded, unless that is past
// its retention.
func TestRampResumesAfterTheRecord(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	events := f.storePublished(4)
	consumer := newReporter(t, f, f.queue)
	job := f.job("event.action: published")
	job.Ramp, job.Started = Ramp{First: 2, StopIf: limits("failed > 0")}, time.Now().Add(-2*time.Hour)
	created := f.create(job)
	created.Open.Stopped, created.Steps = true, []Step{{End: 2}}
	job = f.pausedAfter(created, 2, events)
	_, err := f.Run(t.Context(), job.ID, RunOptions{})
	if missing := wantAs[*UnrecordedError](t, err).Missing; missing != 2 || !strings.Contains(err.Error(), "outcomes of the step that was stopped") {
		t.Errorf("%d: %v", missing, err)
	}
	defer consumer.index()()
	f.cfg.Retention = time.Hour
	store := &unrefreshed{testStore: f.store}
	f.cfg.Store = store
	wantJob(t, f.resume(job, RunOptions{}), Done, 4, 0)
	if !store.isRefreshed.Load() {
		t.Error("the step begins after what a query found")
	}
}

// unrefreshed is a store whose queries find no event until it is refreshed.
type unrefreshed struct {
	testStore
	isRefreshed atomic.Bool
}

func (s *unrefreshed) Refresh(ctx context.Context) error {
	s.isRefreshed.Store(true)
	return s.testStore.Refresh(ctx)
}

func (s *unrefreshed) HighestSequence(ctx context.Context) (int64, error) {
	if !s.isRefreshed.Load() {
		return 0, errors.New("a query would find less")
	}
	return s.testStore.HighestSequence(ctx)
}

// A job that begins anew tries again what could not be sent, so that this counts in the present step.
func TestStepOfAJobThatBeginsAnew(t *testing.T) {
	job := Job{Sent: 9, Failed: 4, Open: OpenStep{Since: 7, Sent: 5, Failed: 3}}
	job.restart()
	if job.Failed = 2; job.unsent() != 2 || job.Open.Since != 7 || job.Open.Sent != 5 {
		t.Errorf("%d not sent, %+v", job.unsent(), job.Open)
	}
}

// A consumer that does not report is judged by the messages that come back; if none ever has, it cannot be judged. Of
// one that reports, each message is waited for.
func TestRampOfConsumersThatDoNotReport(t *testing.T) {
	for before, want := range map[schemas.Action]string{
		schemas.Published: "cannot be judged: no consumer of ", schemas.Handled: "cannot be judged: 1 of 2 messages have no outcome after 3 s", schemas.Poisoned: "",
	} {
		t.Run(string(before), func(t *testing.T) {
			t.Parallel() // most of it is waiting
			f, consumer, job := newRamp(t, 6, Ramp{First: 2, StopIf: limits("failed > 50%"), Wait: 3 * time.Second})
			defer consumer.index()()
			earlier := f.event(before, f.message(0))
			if before != schemas.Published {
				earlier.Queue = f.queue
			}
			f.storeEvents(earlier)
			consumer.fails["m-1"], consumer.silent["m-2"] = true, true
			if before == schemas.Published {
				consumer.silent["m-1"] = true
			}
			if want != "" {
				wantJob(t, f.stopped(job, want), Paused, 2, 0)
				return
			}
			ran := f.resume(job, RunOptions{})
			if wantJob(t, ran, Done, 6, 0); ran.Steps[0].Failed != 1 || ran.Steps[0].Silent != 1 {
				t.Errorf("%+v", ran.Steps)
			}
		})
	}
}

// A runner that ends while a step waits for its outcomes leaves the step to the next one, which sends nothing of it
// again, and waits for the outcomes.
func TestRampAfterACrash(t *testing.T) {
	f, consumer, job := newRamp(t, 20, Ramp{First: 4, StopIf: limits("failed > 0")})
	defer consumer.index()()
	consumer.silent["m-3"] = true
	ctx, crash := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := f.Run(ctx, job.ID, RunOptions{}); ended <- err }()
	rabbittest.Eventually(t, "the step waits", func() bool {
		waiting, err := f.Job(t.Context(), job.ID)
		return err == nil && waiting.Sent == 4 && len(consumer.ids()) == 4
	})
	running, _, err := f.store.Job(t.Context(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	crash()
	<-ended
	_, version, err := f.store.Job(t.Context(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.SaveJob(t.Context(), job.ID, version, running); err != nil { // a crash would not have saved that it ended
		t.Fatal(err)
	}
	var crashed Job
	if err := json.Unmarshal(running, &crashed); err != nil || crashed.State != Running || len(crashed.Steps) > 0 {
		t.Fatalf("%+v, %v", crashed, err)
	}
	second := f.secondReplayer(f.broker.URL)
	go func() { _, err := second.Run(t.Context(), job.ID, RunOptions{}); ended <- err }()
	rabbittest.Eventually(t, "the second runner waits", func() bool {
		taken, err := f.Job(t.Context(), job.ID)
		return err == nil && taken.Runner != crashed.Runner && taken.Updated.After(taken.RunStarted)
	})
	if n := len(consumer.ids()); n != 4 {
		t.Errorf("%d messages were sent before the outcome of m-3", n)
	}
	consumer.mu.Lock()
	late := f.event(schemas.Handled, f.message(3))
	for _, e := range consumer.reports {
		if e.Envelope.Properties.MessageID == "m-3" {
			late.State.Replay, late.State.ReplayOf = e.State.Replay, e.State.ReplayOf
		}
	}
	f.storeEvents(late)
	consumer.mu.Unlock()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "all arrive", func() bool { return len(consumer.ids()) == 20 })
	if ran, err := f.Job(t.Context(), job.ID); err != nil || ran.State != Done || ran.Sent != 20 || ran.Steps[0].Handled != 4 {
		t.Errorf("%+v, %v", ran, err)
	}
}

// Limits have the text that they are read from, and mistakes say what is expected.
func TestLimits(t *testing.T) {
	for _, text := range []string{"failed > 2%", "failed > 10", "failed > 0.5%", "failed ordering > 0", "failed no stock > 3%"} {
		if limit, err := ParseLimit(text); err != nil || limit.String() != text {
			t.Errorf("%q is %q, %v", text, limit, err)
		}
	}
	for _, text := range []string{"", "failed", "failed > x", "failed > -1", "failed > 100%", "failed > NaN", "handled > 1", "failedx > 1", "failed < 2%"} {
		if _, err := ParseLimit(text); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, wrong := range []Ramp{{Percent: []float64{5, 1}}, {Percent: []float64{0}}, {Percent: []float64{101}}, {First: -1}, {Wait: -1}, {StopIf: []Limit{{Above: -1}}}} {
		if err := wrong.Check(); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}
