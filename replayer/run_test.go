package replayer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/replayer/edit"
	"github.com/watershipmq/watership/schemas"
)

// TestReplay: messages are sent to their original exchange once, in order and
// unchanged, with a `replayed` event each.
func TestReplay(t *testing.T) {
	f := newFixture(t)
	third, first, second := f.published(3), f.published(1), f.published(2)
	third.Sequence, first.Sequence = first.Sequence, third.Sequence // order by sequence: 1 3 2
	failed := f.poisoned(1)
	failed.Envelope = first.Envelope
	f.storeEvents(third, first, second, failed)
	plan := f.plan(f.job(""))
	if plan.Matched != 3 || plan.LeftOut[SameMessage] != 1 || len(plan.Sample) != 3 || !plan.First.Equal(first.Time) && !plan.First.Equal(third.Time) {
		t.Errorf("the plan: %+v", plan)
	}
	if len(plan.Routes) != 1 || plan.Routes[0].Messages != 3 || !plan.Routes[0].Unchecked {
		t.Errorf("the routes: %+v", plan.Routes)
	}
	job := f.run(f.job(""))
	wantJob(t, job, Done, 3, 0)
	deliveries := f.drain(f.queue)
	if len(deliveries) != 3 {
		t.Fatalf("%d messages arrived", len(deliveries))
	}
	for i, want := range []int{1, 3, 2} {
		arrived := schemas.FromDelivery(deliveries[i])
		verified, err := f.verify(deliveries[i], "")
		if err != nil || string(arrived.Body) != fmt.Sprintf(`{"order":%d}`, want) {
			t.Fatalf("message %d in place %d (%v)", want, i, err)
		}
		if verified.State.Fingerprint != f.message(want).Fingerprint() || verified.State.Replay != job.ID || verified.State.Attempt != 0 || verified.State.Message != "" {
			t.Errorf("message %d has the state %+v", want, verified.State)
		}
	}
	events := f.indexLog()
	if len(events) != 3 {
		t.Fatalf("%d replayed events", len(events))
	}
	if e := events[0]; e.Action != schemas.Replayed || e.ReplayOf != first.EventID || e.EventID != job.ID+":"+first.EventID ||
		e.Fingerprint != first.Fingerprint || e.BodyIn != schemas.BodyInPublished || e.BodySize != first.BodySize || e.Envelope.Exchange != f.exchange {
		t.Errorf("the first replayed event is %+v", e)
	}
}

// TestReplayOfTheLongestID: the derived id of the `replayed` event fits into its
// header.
func TestReplayOfTheLongestID(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Newest(t))
	failed := f.poisoned(1)
	failed.EventID += strings.Repeat("x", 512-len(failed.EventID))
	f.storeEvents(failed, f.poisoned(2))
	wantJob(t, f.run(f.job("")), Done, 2, 0)
	events := f.indexLog()
	if len(events) != 2 || events[0].Action != schemas.Replayed || events[0].ReplayOf != failed.EventID {
		t.Errorf("the replayed events: %v", events)
	}
	if plan := f.plan(f.job("event.action: poisoned")); plan.Matched != 0 {
		t.Errorf("the second time: %d to send", plan.Matched)
	}
}

func TestReplayToFailedQueue(t *testing.T) {
	f := newFixture(t)
	published, failed := f.published(1), f.poisoned(1)
	gone := f.poisoned(2)
	gone.Queue = f.source + "-gone"
	f.storeEvents(published, failed, gone)
	order := f.job("")
	order.Target.Kind = ToFailedQueue
	job := f.run(order)
	wantJob(t, job, Done, 1, 1)
	d := f.drain(f.queue)
	if len(d) != 1 || d[0].MessageId != "m-1" {
		t.Fatalf("arrived: %v", d)
	}
	verified, err := f.verify(d[0], f.queue)
	if err != nil || verified.Mismatch || verified.State.ReplayOf != failed.EventID || verified.State.Attempt != 0 || verified.Envelope.Exchange != f.exchange {
		t.Errorf("what arrived has the state %+v (%v)", verified, err)
	}
	if f := job.Failures[0]; f.EventID != gone.EventID || f.Message != "m-2" || f.Cause == "" || !strings.Contains(f.Reason, "does not exist") {
		t.Errorf("the failure is %+v", f)
	}
	if stored, err := f.Job(t.Context(), job.ID); err != nil || len(stored.Failures) != 1 || stored.State != Done || stored.Ended.IsZero() {
		t.Errorf("the job is stored as %+v (%v)", stored, err)
	}
}

// TestBodies: an event without a body is sent with the body of another event.
func TestBodies(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Newest(t))
	published := f.published(1)
	handled := f.event(schemas.Handled, f.message(1))
	handled.BodyIn = schemas.BodyInPublished
	handled.Envelope.Body = nil
	lonely := f.event(schemas.Handled, f.message(2))
	lonely.BodyIn = schemas.BodyInPublished
	lonely.Envelope.Body = nil
	f.storeEvents(published, handled, lonely)
	if plan := f.plan(f.job("event.action: handled")); plan.Matched != 2 || plan.Bodiless != 1 {
		t.Errorf("%d to send, of which %d have no body", plan.Matched, plan.Bodiless)
	}
	limited := f.job("event.action: handled")
	limited.Limit = 1
	if plan := f.plan(limited); plan.Matched != 1 || plan.Bodiless != 0 {
		t.Errorf("with a limit: %d to send, of which %d have no body", plan.Matched, plan.Bodiless)
	}
	job := f.run(f.job("event.action: handled"))
	wantJob(t, job, Done, 1, 1)
	d := f.drain(f.queue)
	if len(d) != 1 || string(d[0].Body) != `{"order":1}` {
		t.Errorf("arrived: %v", d)
	}
	if job.Failures[0].Cause != BodyNotStored || !strings.Contains(job.Failures[0].Reason, "no event of message "+lonely.Fingerprint) {
		t.Errorf("the failure is %+v", job.Failures[0])
	}
}

// TestRefused: messages that the broker refuses are counted and named, and the job
// continues. A message without room for the state headers is sent without them.
func TestRefused(t *testing.T) {
	f := newFixture(t)
	f.bind(f.source+"-full", f.exchange, "full", amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"})
	nowhere, full, large := f.published(1), f.published(2), f.published(3)
	nowhere.Envelope.Exchange = f.source + "-deleted"
	full.Envelope.RoutingKey = "full"
	large.Envelope.Headers = amqp.Table{}
	for n := range 4 { // a full frame, without room for the state headers
		large.Envelope.Headers[fmt.Sprint("h", n)] = strings.Repeat("x", 32_740)
	}
	f.storeEvents(nowhere, full, large, f.published(4))
	job := f.run(f.job(""))
	wantJob(t, job, Done, 2, 2)
	reasons := map[string]string{}
	for _, failure := range job.Failures {
		reasons[failure.Message] = failure.Reason
	}
	for id, want := range map[string]string{"m-1": "NOT_FOUND", "m-2": "a queue refused the message"} {
		if !strings.Contains(reasons[id], want) {
			t.Errorf("%s: %q, want %q", id, reasons[id], want)
		}
	}
	got := f.drain(f.queue)
	if len(got) != 3 || got[0].MessageId != "m-2" || got[1].MessageId != "m-3" || got[2].MessageId != "m-4" || // one queue accepted m-2
		!maps.Equal(got[1].Headers, large.Envelope.Headers) {
		t.Errorf("%d messages arrived, or others", len(got))
	}
}

// TestRefusedByOneQueue: the error names the queue, not the internal exchange.
func TestRefusedByOneQueue(t *testing.T) {
	f := newFixture(t)
	queue := f.source + "-full"
	f.bind(queue, f.exchange, "full", amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"})
	f.storePublished(2)
	order := f.job("")
	order.Target = Target{Kind: ToQueue, Queue: queue}
	job := f.run(order)
	wantJob(t, job, Done, 0, 2)
	for _, failure := range job.Failures {
		if want := fmt.Sprintf("queue %q refused the message, as a full one does", queue); failure.Reason != want {
			t.Errorf("%q, want %q", failure.Reason, want)
		}
	}
}

// A queue that is deleted and declared again while a job sends to it, as in a deploy, gets the rest.
func TestQueueIsDeclaredAgain(t *testing.T) {
	t.Parallel() // most of it is waiting
	const many = 80
	for name, route := range map[string]bool{"of a route": true, "of another service": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			queue := f.queue
			if !route {
				queue = f.source + "-other"
				if err := f.channel.ExchangeDeclare(f.cfg.Topology.Return(), "headers", true, false, false, false, nil); err != nil {
					t.Fatal(err)
				}
				f.broker.DeleteExchange(t, f.cfg.Topology.Return())
				f.bind(queue, "", "", nil)
			}
			f.storePublished(many)
			order := f.job("")
			order.Target, order.Rate = Target{Kind: ToQueue, Queue: queue}, 50
			job, err := f.Run(t.Context(), f.create(order).ID, RunOptions{Progress: func(j Job) {
				if j.Processed() != 5 {
					return
				}
				if _, err := f.channel.QueueDelete(queue, false, false, false); err != nil {
					t.Error(err)
				}
				if _, err := f.channel.QueueDeclare(queue, true, false, false, false, nil); err != nil {
					t.Error(err)
				}
			}})
			// Messages that are sent before the queue is there again fail.
			if got := f.receivedIDs(queue); err != nil || job.State != Done || !strings.HasSuffix(got, fmt.Sprint("m-", many)) {
				t.Errorf("the job is %s, failed %d (%v), and the queue has %s: %v", job.State, job.Failed, err, got, job.Failures)
			}
		})
	}
}

func TestLimitAndRate(t *testing.T) {
	f := newFixture(t)
	f.storePublished(20)
	order := f.job("")
	order.Limit, order.Rate = 6, 4
	plan := f.plan(order)
	if plan.Matched != 6 || plan.LeftOut[BeyondLimit] != 14 {
		t.Errorf("the plan: %+v", plan)
	}
	began := time.Now()
	job := f.run(order)
	wantJob(t, job, Done, 6, 0)
	if took := time.Since(began); took < 1200*time.Millisecond {
		t.Errorf("6 messages at 4 a second took %s", took)
	}
	if got := f.receivedIDs(f.queue); got != "m-1 m-2 m-3 m-4 m-5 m-6" {
		t.Errorf("arrived: %s", got)
	}
}

func TestTargets(t *testing.T) {
	f := newFixture(t)
	f.bind(f.source+"-repair", f.exchange, "repair", nil)
	f.storeEvents(f.poisoned(1))
	key := "repair"
	for name, target := range map[string]Target{
		"queue":            {Kind: ToQueue, Queue: f.source + "-repair"},
		"exchange and key": {Kind: ToExchange, Exchange: f.exchange, Key: &key},
		"default exchange": {Kind: ToExchange, Exchange: "", Key: &[]string{f.source + "-repair"}[0]},
	} {
		order := f.job("")
		order.Target = target
		wantJob(t, f.run(order), Done, 1, 0)
		if got := f.receivedIDs(f.source + "-repair"); got != "m-1" {
			t.Errorf("%s: arrived %q", name, got)
		}
	}
	order := f.job("")
	order.Target = Target{Kind: ToExchange, Exchange: f.exchange}
	f.drain(f.queue)
	wantJob(t, f.run(order), Done, 1, 0)
	if d := f.drain(f.queue); len(d) != 1 || d[0].RoutingKey != "order.created" {
		t.Errorf("with its own key: %v", d)
	}
}

// TestReplayedQueue: the `replayed` event names a queue only if the message was sent
// to one queue, whichever of its events was found.
func TestReplayedQueue(t *testing.T) {
	f := newFixture(t)
	f.bind(f.source+"-repair", f.exchange, "repair", nil)
	f.storeEvents(f.event(schemas.Handled, f.message(1)), f.poisoned(2))
	for target, want := range map[Target]string{
		{Kind: ToOrigin}: "", {Kind: ToExchange, Exchange: f.exchange}: "", {Kind: ToFailedQueue}: f.queue,
		{Kind: ToQueue, Queue: f.source + "-repair"}: f.source + "-repair",
	} {
		order := f.job("")
		order.Target = target
		f.run(order)
		events := f.indexLog()
		if len(events) == 0 {
			t.Errorf("%s: nothing was replayed", target)
		}
		for _, e := range events {
			if e.Queue != want {
				t.Errorf("%s: replayed to queue %q, want %q", target, e.Queue, want)
			}
		}
	}
}

// TestHeaders: a changed message carries its new fingerprint, so that its state is
// verified.
func TestHeaders(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	event := f.published(1)
	f.storeEvents(event)
	order := f.job("")
	order.Changes = edit.Changes{Set: []string{"tenant=umbrella", "retries:int=3"}, Remove: []string{"n"}}
	job := f.run(order)
	wantJob(t, job, Done, 1, 0)
	verified, err := f.verify(f.drain(f.queue)[0], "")
	if err != nil {
		t.Fatal(err)
	}
	headers := verified.Envelope.Headers
	if headers["tenant"] != "umbrella" || headers["retries"] != int64(3) || len(headers) != 2 {
		t.Errorf("headers %v", headers)
	}
	if verified.State.Replay != job.ID || verified.State.ReplayOf != event.EventID || verified.State.Fingerprint == event.Fingerprint {
		t.Errorf("the state is %+v", verified.State)
	}
	if replayed := f.indexLog(); replayed[0].Fingerprint != event.Fingerprint || replayed[0].Envelope.Headers["tenant"] != "acme" {
		t.Errorf("the replayed event is about %+v", replayed[0])
	}
	order.Changes = edit.Changes{Set: []string{"x-death=1"}}
	if _, err := f.Plan(t.Context(), order); err == nil || !strings.Contains(err.Error(), "x-death") {
		t.Errorf("a header of RabbitMQ's: %v", err)
	}
}

// TestRequests: a request can be replayed without reply_to, so that its client gets no
// second reply. Headers of the publisher named x-... are kept.
func TestRequests(t *testing.T) {
	f := newFixture(t)
	request := f.message(1)
	request.Properties.ReplyTo, request.Properties.CorrelationID, request.Properties.Priority = "replies", "c-1", 3
	request.Headers["x-trace"] = "t-1"
	f.storeEvents(f.event(schemas.Published, request), f.published(2))
	order := f.job("")
	if plan := f.plan(order); plan.Replies != 1 {
		t.Errorf("%d messages ask for a reply, want 1", plan.Replies)
	}
	order.DropReplyTo, order.Changes = true, edit.Changes{Remove: []string{"x-trace"}, RemoveProperties: []string{"priority"}}
	if plan := f.plan(order); plan.Replies != 0 || plan.RepliesDropped != 1 {
		t.Errorf("%d messages ask for a reply although reply_to is removed, from %d", plan.Replies, plan.RepliesDropped)
	}
	wantJob(t, f.run(order), Done, 2, 0)
	got := f.verifiedByID(f.drain(f.queue))[request.Properties.MessageID].Envelope
	if p := got.Properties; p.ReplyTo != "" || p.Priority != 0 || p.CorrelationID != "c-1" || got.Headers["x-trace"] != nil {
		t.Errorf("%+v with headers %v", p, got.Headers)
	}
	order.Again, order.Changes = true, edit.Changes{}
	wantJob(t, f.run(order), Done, 2, 0)
	if got := f.verifiedByID(f.drain(f.queue))[request.Properties.MessageID].Envelope; got.Properties.ReplyTo != "" || got.Headers["x-trace"] == nil {
		t.Errorf("without other changes: %+v with headers %v", got.Properties, got.Headers)
	}
}

// TestPauseAndResume: a job is stopped in every way except a crash, and each message
// arrives once.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()      // most of it is waiting
	const many = 5000 // more than are unconfirmed when the job is interrupted
	f := newFixture(t)
	f.storePublished(many)
	job := f.create(f.job(""))
	if job.State != Planned || job.Total != many {
		t.Errorf("the job begins as %+v", job)
	}
	job = f.resume(job, RunOptions{StopAfter: 700})
	wantJob(t, job, Paused, 700, 0)
	ctx, stop := context.WithCancel(t.Context())
	job, err := f.Run(ctx, job.ID, RunOptions{Progress: func(j Job) {
		if j.Sent == 1500 {
			stop()
		}
	}})
	if !errors.Is(err, context.Canceled) || job.State != Paused || job.Sent < 1500 || job.Sent == many {
		t.Errorf("an interrupted job is %s, sent %d (%v)", job.State, job.Sent, err)
	}
	job = f.resume(job, RunOptions{})
	wantJob(t, job, Done, many, 0)
	if _, err := f.Run(t.Context(), job.ID, RunOptions{}); err == nil || !strings.Contains(err.Error(), "nothing left") {
		t.Errorf("running a job that is done: %v", err)
	}
	want := make([]string, many)
	for i := range want {
		want[i] = fmt.Sprint("m-", i+1)
	}
	if got := strings.Fields(f.receivedIDs(f.queue)); !slices.Equal(got, want) {
		t.Errorf("%d messages arrived, or in another order", len(got))
	}
	wantAs[*NoJobError](t, func() error { _, err := f.Run(t.Context(), "nobody", RunOptions{}); return err }())
}

// TestJobChangedByOthers: another program may change a job in the store. A run checks
// the stored job like a plan, and compares it with the expected one.
func TestJobChangedByOthers(t *testing.T) {
	f := newFixture(t)
	f.storePublished(3)
	for name, test := range map[string]struct {
		change   func(*Job)
		expected bool // the expected job is the one before the change
		want     string
	}{
		"to our exchange": {func(j *Job) { j.Target = Target{Kind: ToExchange, Exchange: f.cfg.Topology.Events()} }, false, "one of Watership's own"},
		"to our queue":    {func(j *Job) { j.Target = Target{Kind: ToQueue, Queue: f.cfg.Topology.Log()} }, false, "one of Watership's own"},
		"to nowhere":      {func(j *Job) { j.Target = Target{} }, false, "no target"},
		"our header":      {func(j *Job) { j.Changes.Set = []string{"watership-queue=x"} }, false, "watership-queue"},
		"another query":   {func(j *Job) { j.Query = "messaging.message.id: m-1" }, true, "was changed since it was shown"},
		"another target":  {func(j *Job) { j.Target = Target{Kind: ToQueue, Queue: f.queue} }, true, "was changed since it was shown"},
		"another limit":   {func(j *Job) { j.Limit = 1 }, true, "was changed since it was shown"},
	} {
		shown := f.create(f.job(""))
		job := shown
		test.change(&job)
		if err := f.save(t.Context(), &job); err != nil {
			t.Fatal(err)
		}
		var o RunOptions
		if test.expected {
			o.Expected = &shown
		}
		if _, err := f.Run(t.Context(), job.ID, o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: ended with %v, want %q", name, err, test.want)
		}
		if stored, err := f.Job(t.Context(), job.ID); err != nil || stored.State != Planned {
			t.Errorf("%s: the job is %s (%v)", name, stored.State, err)
		}
	}
	if n := f.broker.Len(t, f.queue) + f.broker.Len(t, f.cfg.Topology.Log()); n != 0 {
		t.Errorf("%d messages were sent", n)
	}
	shown := f.create(f.job(""))
	wantJob(t, f.resume(shown, RunOptions{Expected: &shown}), Done, 3, 0)
}

func TestCancel(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	f.storePublished(200)
	order := f.job("")
	order.Rate = 5 // 40 s, of which the job notices its end in the first ones
	created := f.create(order)
	cancelled := make(chan error, 1)
	ran, err := f.Run(t.Context(), created.ID, RunOptions{Progress: func(j Job) {
		if j.Sent == 3 {
			go func() { _, err := f.Cancel(t.Context(), created.ID, "by bob"); cancelled <- err }()
		}
	}})
	if err := rabbittest.Receive(t, cancelled); err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "cancelled: by bob") || ran.State != Cancelled || ran.Sent < 3 || ran.Sent >= 200 {
		t.Errorf("the job is %s, sent %d (%v)", ran.State, ran.Sent, err)
	}
	stored, err := f.Job(t.Context(), created.ID)
	if err != nil || stored.State != Cancelled || stored.Problem != "by bob" || stored.Sent != ran.Sent || stored.Ended.IsZero() {
		t.Errorf("stored as %+v (%v)", stored, err)
	}
	if _, err := f.Run(t.Context(), created.ID, RunOptions{}); err == nil || !strings.Contains(err.Error(), "is cancelled") {
		t.Errorf("resuming it: %v", err)
	}
	if _, err := f.Cancel(t.Context(), created.ID, ""); err == nil {
		t.Error("it was cancelled twice")
	}
}

// A job that is cancelled while it pauses stays cancelled.
func TestCancelledWhileItPauses(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storePublished(200)
	created := f.create(f.job(""))
	ctx, stop := context.WithCancel(t.Context())
	_, err := f.Run(ctx, created.ID, RunOptions{Progress: func(j Job) {
		if j.Sent != 3 {
			return
		}
		stop()
		if _, err := f.Cancel(t.Context(), created.ID, "by bob"); err != nil {
			t.Error(err)
		}
		time.Sleep(saveInterval + 100*time.Millisecond) // so that a checkpoint is due
	}})
	stored, readErr := f.Job(t.Context(), created.ID)
	if readErr != nil || stored.State != Cancelled || stored.Problem != "by bob" {
		t.Errorf("the job is %s, %q (%v); the run ended with %v", stored.State, stored.Problem, readErr, err)
	}
}

// A cancelled job does not wait for the broker.
func TestCancelledWithoutTheBroker(t *testing.T) {
	r := New(Config{Connection: rabbitmq.Connection{URL: "amqp://127.0.0.1:1"}, Jobs: &readOnlyJobs{}})
	ctx, stop := context.WithTimeout(t.Context(), rabbittest.Timeout)
	defer stop()
	if _, err := r.awaitConnection(ctx, "a", &Job{ID: "a", State: Cancelled}); !errors.Is(err, errCancelled) {
		t.Errorf("%v", err)
	}
}

// The job of a plan of an empty store sends nothing, whatever is stored later.
func TestPlanOfAnEmptyStore(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	created := f.create(f.job(""))
	f.storePublished(3)
	wantJob(t, f.resume(created, RunOptions{}), Done, 0, 0)
}

// readOnlyJobs refuses saves after the first ones.
type readOnlyJobs struct {
	storeread.JobStore
	saves int
}

func (j *readOnlyJobs) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	if j.saves--; j.saves < 0 {
		return "", &eventstore.Error{Kind: eventstore.Unauthorized, Reason: "read-only"}
	}
	return j.JobStore.SaveJob(ctx, id, version, document)
}

// A job that cannot be saved sends nothing: others could not know which messages it leaves to
// them. If it could not begin, no job is returned, since none was saved.
func TestJobThatCannotBeSaved(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storePublished(3)
	created := f.create(f.job(""))
	for saves, want := range []string{"", created.ID} {
		cfg := f.config(f.cfg.Topology, f.broker.URL)
		cfg.Jobs = &readOnlyJobs{f.store, saves}
		job, err := New(cfg).Run(t.Context(), created.ID, RunOptions{})
		if err == nil || job.ID != want {
			t.Errorf("after %d saves: job %q (%v)", saves, job.ID, err)
		}
		if n := f.broker.Len(t, f.queue); n != 0 {
			t.Errorf("after %d saves: %d messages were sent", saves, n)
		}
	}
}

// The speed of a job is that of its last run: a pause between its runs does not count.
func TestSpeedIsThatOfTheLastRun(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	job := f.pausedJob()
	if job.Processed() != 40 || job.Speed() <= 0 {
		t.Errorf("first run: %d processed, speed %g", job.Processed(), job.Speed())
	}
	if job = f.resume(job, RunOptions{}); job.RunBegin != 40 || job.RunStarted.Before(job.Started) {
		t.Errorf("the last run began at %d, %s", job.RunBegin, job.RunStarted)
	}
	job.Updated = job.RunStarted.Add(2 * time.Second)
	if got := job.Speed(); got != 30 {
		t.Errorf("60 messages in 2 s: %g a second", got)
	}
}

// Messages that cannot be sent are among those after which a job pauses: the rest stays where it is.
func TestAJobPausesAfterMessagesThatCannotBeSent(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storePublished(3)
	order := f.job("")
	order.Target = Target{Kind: ToQueue, Queue: f.source + "-gone"}
	wantJob(t, f.resume(f.create(order), RunOptions{StopAfter: 2}), Paused, 0, 2)
}

// The rate counts the messages that are sent: at one a day, those that the program leaves out do
// not hold up the last.
func TestRateCountsWhatIsSent(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storePublished(20)
	order := f.job("")
	order.Rate, order.Transform = 1.0/(24*60*60), `if .body.order == 19 then . else empty end`
	wantJob(t, f.run(order), Done, 1, 0)
}

// Two processes that start one job run it once: the second does not go on where the first was stopped.
func TestASecondStartIsNoResume(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storePublished(3)
	job := f.create(f.job(""))
	once := RunOptions{StopAfter: 1, Expected: &job}
	wantJob(t, f.resume(job, once), Paused, 1, 0)
	_, err := f.Run(t.Context(), job.ID, once)
	wantAs[*TakenOverError](t, err)
	stored, err := f.Job(t.Context(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantJob(t, stored, Paused, 1, 0)
}

// A job that is resumed counts the messages of its earlier runs against its limit, also those that
// it left out as their stream had stopped.
func TestLimitOfAResumedJob(t *testing.T) {
	f := newFixture(t)
	f.storePublished(10)
	order := f.job("")
	order.Limit, order.Again = 5, true
	first := f.resume(f.create(order), RunOptions{StopAfter: 3})
	first.ID, first.Sent, first.Stopped = "stopped", 1, 2
	f.storeJob(first)
	if job := f.resume(first, RunOptions{}); job.Sent != 3 || job.Processed() != 5 {
		t.Errorf("%d sent, %d processed; want 3 of 5", job.Sent, job.Processed())
	}
}

// A message that waits to be counted keeps no body, so a candidate has it once.
func TestCandidatesHaveOneBody(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storePublished(1)
	scan, err := f.newScan(t.Context(), f.job(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	scan.withBodies = true
	for page, err := range scan.pages(t.Context(), eventstore.Cursor{}) {
		if c := page[0]; err != nil || len(c.event.Envelope.Body) == 0 || c.recorded.Body != nil || c.recorded.RoutingKey == "" {
			t.Errorf("%v, %+v", err, c)
		}
	}
}
