package replayer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// reporter consumes the queue of a test, and stores reports about its messages.
type reporter struct {
	f       *fixture
	mu      sync.Mutex // guards the fields below
	arrived []string   // message ids, in order
	open    int        // arrived, and not reported yet
	most    int
	fails   map[string]bool
	silent  map[string]bool // messages without a report
	class   string          // of failures
	reports []schemas.Event // also those that are not stored
	stopped chan struct{}
}

// newReporter starts a consumer that reports about each message some milliseconds after its
// arrival, those of even messages later than those of odd ones.
func newReporter(t *testing.T, f *fixture, queue string) *reporter {
	t.Helper()
	r := &reporter{f: f, fails: map[string]bool{}, silent: map[string]bool{}, stopped: make(chan struct{})}
	deliveries, err := f.broker.Channel(t).Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reports sync.WaitGroup
	go func() {
		defer close(r.stopped)
		defer reports.Wait()
		for {
			select {
			case d, more := <-deliveries:
				if !more {
					return
				}
				event := r.receive(d, queue)
				reports.Go(func() { r.report(ctx, event, d.MessageId) })
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-r.stopped })
	return r
}

func (r *reporter) receive(d amqp.Delivery, queue string) schemas.Event {
	verified, err := r.f.verify(d, queue)
	if err != nil {
		r.f.t.Errorf("message %s: %v", d.MessageId, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived = append(r.arrived, d.MessageId)
	r.open++
	r.most = max(r.most, r.open)
	action := schemas.Handled
	if r.fails[d.MessageId] {
		action = schemas.Poisoned
	}
	event := r.f.event(action, verified.Envelope)
	event.State.Replay, event.State.ReplayOf, event.Queue = verified.State.Replay, verified.State.ReplayOf, queue
	if action == schemas.Poisoned {
		event.Failure = schemas.Failure{Message: "no stock", Class: r.class}
	}
	r.reports = append(r.reports, event)
	return event
}

func (r *reporter) report(ctx context.Context, event schemas.Event, id string) {
	pause := 5 * time.Millisecond
	if strings.HasSuffix(id, "0") || strings.HasSuffix(id, "2") {
		pause *= 4
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent[id] {
		return
	}
	r.open--
	results, err := r.f.store.Create(ctx, []schemas.Document{schemas.DocumentFormat{}.Document(event)})
	if ctx.Err() == nil && (err != nil || results[0].Status != eventstore.Created) {
		r.f.t.Errorf("storing a report: %v %+v", err, results)
	}
}

// indexLog is fixture.indexLog while the consumer makes no events.
func (r *reporter) indexLog() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.f.indexLog()
}

func (r *reporter) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.arrived)
}

// storeHandled stores that a queue has handled a message before, so that its consumer reports.
func (f *fixture) storeHandled(queue string) {
	handled := f.event(schemas.Handled, f.message(0))
	handled.Queue = queue
	f.storeEvents(handled)
}

// Never more messages are in flight than the job allows: the next one is sent when a consumer
// has reported about one of them.
func TestAtMostInFlight(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		f := newFixtureOn(t, b)
		f.storeHandled(f.queue)
		f.storePublished(20)
		consumer := newReporter(t, f, f.queue)
		consumer.fails["m-3"] = true
		job := f.job("event.action: published")
		job.InFlight = 3
		ran := f.run(job)
		wantJob(t, ran, Done, 20, 0)
		rabbittest.Eventually(t, "all arrive", func() bool { return len(consumer.ids()) == 20 })
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		if consumer.most > 3 {
			t.Errorf("%d were in flight", consumer.most)
		}
	})
}

// A queue that was deleted since it reported about a message is not waited for.
func TestInFlightWithoutADeletedQueue(t *testing.T) {
	f := newFixture(t)
	f.storeHandled(f.queue)
	former := f.event(schemas.Handled, f.message(1))
	former.Queue = f.source + "-former"
	f.storeEvents(former)
	f.storePublished(2)
	newReporter(t, f, f.queue)
	job := f.job("event.action: published")
	job.InFlight = 1
	ctx, stop := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("it waits for the queue"))
	defer stop()
	ran, err := f.Run(ctx, f.create(job).ID, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantJob(t, ran, Done, 2, 0)
}

// Without reports the job sends no more; a resumed job waits for the messages of the run
// before.
func TestInFlightIsResumed(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	f.storeHandled(f.queue)
	f.storePublished(5)
	job := f.job("event.action: published")
	job.InFlight = 2
	created := f.create(job)
	stored := created
	for range 2 { // the second run waits for the messages of the first one
		former := stored.Runner
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() {
			_, err := f.Run(ctx, created.ID, RunOptions{})
			stopped <- err
		}()
		rabbittest.Eventually(t, "two messages arrive", func() bool { return f.broker.Len(t, f.queue) == 2 })
		rabbittest.Eventually(t, "it waits", func() bool {
			stored, _ = f.Job(t.Context(), created.ID)
			return stored.Sent == 2 && stored.Runner != former && stored.Updated.Sub(stored.RunStarted) >= saveInterval
		})
		cancel()
		if err := <-stopped; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		f.indexLog()
	}
	if n := f.broker.Len(t, f.queue); n != 2 {
		t.Fatalf("%d messages arrived", n)
	}
	consumer := newReporter(t, f, f.queue)
	wantJob(t, f.resume(created, RunOptions{}), Done, 5, 0)
	rabbittest.Eventually(t, "all arrive", func() bool { return len(consumer.ids()) == 5 })
	consumer.mu.Lock()
	defer consumer.mu.Unlock()
	if consumer.most > 2 {
		t.Errorf("%d were in flight", consumer.most)
	}
}

// A job that would wait for reports that nobody sends is not planned.
func TestInFlightNeedsReports(t *testing.T) {
	f := newFixture(t)
	f.storePublished(2)
	foreign := f.source + "-foreign"
	for name, target := range map[string]Target{
		"queue " + foreign: {Kind: ToQueue, Queue: foreign}, "order.created": {Kind: ToOrigin}, f.source + "-other": {Kind: ToExchange, Exchange: f.source + "-other"},
	} {
		job := f.job("")
		job.Target, job.InFlight = target, 5
		_, err := f.Plan(t.Context(), job)
		if wantAs[*NoReportsError](t, err); !strings.Contains(err.Error(), name) {
			t.Errorf("%v", err)
		}
	}
	f.storeHandled(foreign)
	job := f.job("event.action: published")
	job.InFlight = 5
	for _, target := range []Target{{Kind: ToQueue, Queue: foreign}, {Kind: ToQueue, Queue: f.queue}, {Kind: ToOrigin}} { // the second one is of a route
		job.Target = target
		if plan, err := f.Plan(t.Context(), job); err != nil || plan.Matched != 2 {
			t.Errorf("%s: %d to send, %v", target, plan.Matched, err)
		}
	}
	for _, bad := range []func(*Job){
		func(j *Job) { j.InFlight = -1 }, func(j *Job) { j.InFlight = MaxInFlight + 1 }, func(j *Job) { j.Order = "x" }, func(j *Job) { j.OnFailure = "x" }, func(j *Job) { j.Pace = -1 },
	} {
		wrong := f.job("")
		bad(&wrong)
		if _, err := f.Plan(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// inStream returns the `published` event of message n in a stream.
func (f *fixture) inStream(stream string, n int) schemas.Event {
	e := f.published(n)
	e.Stream = schemas.MessageStream{ID: stream}
	return e
}

// A message of a stream is sent when the one before it was handled, while other streams go on;
// a stream ends at a message that fails, also in a resumed job.
func TestOrderOfStreams(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		f := newFixtureOn(t, b)
		f.storeHandled(f.queue)
		var events []schemas.Event
		for n := range 30 {
			events = append(events, f.inStream(fmt.Sprint("order-", n%3), n+1))
		}
		events = append(events, f.published(31))
		f.storeEvents(events...)
		consumer := newReporter(t, f, f.queue)
		consumer.fails["m-5"] = true // of order-1
		f.streams = func(e schemas.Envelope) schemas.MessageStream {
			var n int
			_, _ = fmt.Sscanf(e.Properties.MessageID, "m-%d", &n)
			return schemas.MessageStream{ID: fmt.Sprint("order-", (n-1)%3)}
		}
		job := f.job("event.action: published")
		job.Order = ByStream
		if plan := f.plan(job); plan.Matched != 31 || plan.Streamless != 1 {
			t.Errorf("the plan: %d, %d without a stream", plan.Matched, plan.Streamless)
		}
		created := f.create(job)
		paused := f.resume(created, RunOptions{StopAfter: 12})
		if paused.State != Paused || paused.Sent+paused.Stopped != 12 {
			t.Errorf("%s, sent %d, stopped %d", paused.State, paused.Sent, paused.Stopped)
		}
		consumer.indexLog()
		ran := f.resume(created, RunOptions{})
		if ran.State != Done || ran.Sent != 23 || ran.Stopped != 8 || ran.Processed() != 31 {
			t.Errorf("%s, sent %d, stopped %d", ran.State, ran.Sent, ran.Stopped)
		}
		rabbittest.Eventually(t, "all arrive", func() bool { return len(consumer.ids()) == 23 })
		wantStreamsInOrder(t, consumer.ids())
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		if consumer.most > 4 {
			t.Errorf("%d were in flight", consumer.most)
		}
	})
}

func wantStreamsInOrder(t *testing.T, ids []string) {
	t.Helper()
	last := map[int]int{}
	for _, id := range ids {
		var n int
		if _, err := fmt.Sscanf(id, "m-%d", &n); err != nil {
			t.Fatal(err)
		}
		if stream := n % 3; n != 31 {
			if n <= last[stream] {
				t.Errorf("%s arrived after m-%d: %v", id, last[stream], ids)
			}
			last[stream] = n
		}
	}
}

// A stream may go on after a failure, and a message that cannot be sent is one.
func TestStreamsGoOn(t *testing.T) {
	f := newFixture(t)
	f.storeHandled(f.queue)
	var events []schemas.Event
	for n := range 6 {
		events = append(events, f.inStream("order-1", n+1))
	}
	f.storeEvents(events...)
	consumer := newReporter(t, f, f.queue)
	job := f.job("event.action: published")
	job.Order, job.Transform = ByStream, `if .body.order == 2 then error("x") else . end`
	ran := f.run(job)
	if ran.State != Done || ran.Sent != 1 || ran.Failed != 1 || ran.Stopped != 4 || ran.Failures[0].Stream != "order-1" {
		t.Errorf("%s, sent %d, failed %d, stopped %d", ran.State, ran.Sent, ran.Failed, ran.Stopped)
	}
	consumer.indexLog()
	job.OnFailure, job.Again = GoOn, true
	wantJob(t, f.run(job), Done, 5, 1)
}

// A job stops before it has more streams with a failure than it can keep: resumed, it goes on with none of them.
func TestStreamsThatFailAreNotForgotten(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	f.storeHandled(f.queue)
	var events []schemas.Event
	for n := range maxFailures + 1 {
		events = append(events, f.inStream(fmt.Sprint("order-", n), n+1))
	}
	last := fmt.Sprint("order-", maxFailures)
	f.storeEvents(append(events, f.inStream(last, maxFailures+2))...)
	consumer := newReporter(t, f, f.queue)
	job := f.job("event.action: published")
	job.Order, job.Transform = ByStream, fmt.Sprintf(`if .body.order <= %d then error("x") else . end`, maxFailures+1)
	job = f.create(job)
	for range 2 {
		ran, err := f.Run(t.Context(), job.ID, RunOptions{})
		if !errors.Is(err, errTooManyStreams) || ran.State != Failed || ran.Failed != maxFailures || ran.Processed() != maxFailures {
			t.Errorf("%v: %s, failed %d, processed %d", err, ran.State, ran.Failed, ran.Processed())
		}
	}
	if ids := consumer.ids(); len(ids) > 0 {
		t.Errorf("%v arrived of a stream that has a failure", ids)
	}
}

// Many messages that the program leaves out pass a message that waits for its stream.
func TestOrderOfStreamsWithManyLeftOut(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	f.storeHandled(f.queue)
	events := []schemas.Event{f.inStream("order-1", 1), f.inStream("order-1", 2)}
	for n := range Window + 500 {
		events = append(events, f.published(n+3))
	}
	f.storeEvents(events...)
	consumer := newReporter(t, f, f.queue)
	job := f.job("event.action: published")
	job.Order, job.Transform = ByStream, `if .body.order > 2 then empty else . end`
	ran := f.run(job)
	if ran.State != Done || ran.Sent != 2 || ran.Filtered != Window+500 || strings.Join(consumer.ids(), " ") != "m-1 m-2" {
		t.Errorf("%s, sent %d, filtered %d, arrived %v", ran.State, ran.Sent, ran.Filtered, consumer.ids())
	}
}

// Without streams there is no order of streams.
func TestOrderNeedsStreams(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storeHandled(f.queue)
	f.storePublished(2)
	job := f.job("event.action: published")
	job.Order = ByStream
	_, err := f.Plan(t.Context(), job)
	_ = wantAs[*NoStreamsError](t, err)
}
