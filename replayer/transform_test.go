package replayer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// A job sends what its program makes of the messages. A plan runs the program, too: it tells
// the routes of the changed messages, what is left out and what fails.
func TestTransform(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		f := newFixtureOn(t, b)
		f.bind(f.source+"-vip", f.exchange, "order.vip", nil)
		f.storePublished(4)
		job := f.job("")
		job.Transform = `if .body.order == 2 then empty elif .body.order == 3 then error("no price") elif .body.order == 4 then
			.routing_key = "order.vip" | .headers.vip = true | .body.points = 7 else . end`
		plan := f.plan(job)
		if plan.Matched != 3 || plan.LeftOut[FilteredOut] != 1 || plan.Untransformed != 1 || len(plan.Examples) != 2 || plan.Sample[0].Envelope.Body != nil {
			t.Errorf("the plan: %d to send, %d fail, left out %v, %d examples", plan.Matched, plan.Untransformed, plan.LeftOut, len(plan.Examples))
		}
		if len(plan.Routes) != 2 || plan.Routes[0].RoutingKey != "order.created" || plan.Routes[1].RoutingKey != "order.vip" {
			t.Errorf("the routes: %+v", plan.Routes)
		}
		if e := plan.Examples[1]; !strings.Contains(string(e.Before), `"body":{"order":4}`) || !strings.Contains(string(e.After), `"points":7`) || e.Problem != "" {
			t.Errorf("an example: %+v", e)
		}
		if e := plan.Examples[0]; e.After != nil || e.Problem != "the program failed: error: no price" {
			t.Errorf("an example: %+v", e)
		}
		ran := f.run(job)
		wantJob(t, ran, Done, 2, 1)
		if ran.Filtered != 1 || ran.Total != 3 || ran.Failures[0].Message != "m-3" || ran.Failures[0].Cause != TransformFailed || !strings.Contains(ran.Failures[0].Reason, "no price") {
			t.Errorf("the job: %+v", ran)
		}
		all := f.drain(f.queue)
		vip := f.drain(f.source + "-vip")
		if len(all) != 2 || len(vip) != 1 || string(all[0].Body) != `{"order":1}` || string(vip[0].Body) != `{"order":4,"points":7}` || vip[0].Headers["vip"] != true {
			t.Fatalf("arrived: %+v, %+v", all, vip)
		}
		f.verifiedByID(all)
		if n, is := vip[0].Headers["n"].(int64); !is || n != 4 {
			t.Errorf("a header is %T", vip[0].Headers["n"])
		}
		if events := f.indexLog(); len(events) != 2 || string(events[1].Envelope.RoutingKey) != "order.created" {
			t.Errorf("the events: %+v", events)
		}
	})
}

// A program cannot send to Watership's own exchanges, nor change the route of a message that
// goes to a queue.
func TestTransformOfRoutes(t *testing.T) {
	f := newFixture(t)
	f.storePublished(1)
	job := f.job("")
	job.Transform = fmt.Sprintf(`.exchange = %q`, f.cfg.Topology.Events())
	ran := f.run(job)
	wantJob(t, ran, Done, 0, 1)
	if !strings.Contains(ran.Failures[0].Reason, "Watership's own") {
		t.Errorf("%+v", ran.Failures)
	}
	job.Target, job.Transform = Target{Kind: ToQueue, Queue: f.queue}, `.routing_key = "x"`
	ran = f.run(job)
	wantJob(t, ran, Done, 0, 1)
	if !strings.Contains(ran.Failures[0].Reason, "sent to queue "+f.queue) {
		t.Errorf("%+v", ran.Failures)
	}
	job.Transform = `.headers.a = 1`
	wantJob(t, f.run(job), Done, 1, 0)
	if d := f.drain(f.queue); len(d) != 1 || d[0].Headers["a"] != int64(1) || d[0].Headers["watership-untapped"] != int64(1) {
		t.Errorf("arrived: %+v", d)
	}
	if n := len(f.drain(f.cfg.Topology.Log())); n != 1 {
		t.Errorf("%d messages in the log", n)
	}
}

// A resumed job has the program with which it was planned, and leaves out and counts as if it
// had not been interrupted. A limit counts the messages that are sent.
func TestTransformIsResumed(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storePublished(10)
	order := f.job("")
	order.Transform, order.Limit = `select(.body.order % 2 == 0) | .body.changed = true`, 4
	job := f.create(order)
	if job.Total != 4 {
		t.Errorf("%d to send", job.Total)
	}
	wantJob(t, f.resume(job, RunOptions{StopAfter: 2}), Paused, 2, 0)
	ran := f.resume(job, RunOptions{})
	wantJob(t, ran, Done, 4, 0)
	if ran.Filtered != 4 || ran.Processed() != ran.Total {
		t.Errorf("%d left out", ran.Filtered)
	}
	if got := f.receivedIDs(f.queue); got != "m-2 m-4 m-6 m-8" {
		t.Errorf("arrived: %s", got)
	}
	ran.Transform = "."
	if _, err := f.Run(t.Context(), job.ID, RunOptions{Expected: &ran}); err == nil {
		t.Error("it runs with another program")
	}
}

// Messages go through the program in pages, and each has its own result: a message for which it
// fails costs no other one, and those before the one that needs too much memory are sent.
func TestTransformInProcesses(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storePublished(130)
	programs := transform.NewProcesses()
	t.Cleanup(programs.Close)
	f.cfg.Programs = programs
	job := f.job("")
	job.Transform = `if .body.order % 40 == 0 then error("no price") elif .body.order % 60 == 30 then empty else .body.changed = .body.order end`
	ran := f.run(job)
	wantJob(t, ran, Done, 125, 3)
	if ran.Filtered != 2 || ran.Failures[2].Message != "m-120" {
		t.Errorf("%d left out, failures %+v", ran.Filtered, ran.Failures)
	}
	arrived := f.drain(f.queue)
	for _, d := range arrived {
		if n := strings.TrimPrefix(d.MessageId, "m-"); string(d.Body) != fmt.Sprintf(`{"changed":%s,"order":%[1]s}`, n) {
			t.Errorf("%s has the body %s", d.MessageId, d.Body)
		}
	}
	if first, last := arrived[0].MessageId, arrived[len(arrived)-1].MessageId; first != "m-1" || last != "m-130" {
		t.Errorf("from %s to %s", first, last)
	}
	job.Again = true
	planned := f.create(job)
	planned.ID, planned.Transform = f.source+"-memory", `if .body.order == 70 then null | .[536870911] = 1 else . end`
	f.storeJob(planned)
	ran, err := f.Run(t.Context(), planned.ID, RunOptions{})
	var limit *transform.LimitError
	if !errors.As(err, &limit) || ran.State != Failed || ran.Sent != 69 {
		t.Errorf("%s after %d: %v", ran.State, ran.Sent, err)
	}
	planned.ID = f.source + "-canary"
	f.storeJob(planned)
	wantJob(t, f.resume(planned, RunOptions{StopAfter: 69}), Paused, 69, 0)
}

// A program of a job with a rate runs once the message before is sent, so that its time is not of a page.
func TestTransformOfASlowJob(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	f.storePublished(6)
	programs := transform.NewProcesses()
	t.Cleanup(programs.Close)
	f.cfg.Programs = programs
	job := f.job("")
	job.Rate, job.Transform = 10, ".body = now"
	wantJob(t, f.run(job), Done, 6, 0)
	arrived := f.drain(f.queue)
	seconds := func(d amqp.Delivery) float64 {
		n, err := strconv.ParseFloat(string(d.Body), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if took := seconds(arrived[5]) - seconds(arrived[0]); took < 0.3 {
		t.Errorf("programs of 6 messages, of which one is sent each 0.1 s, saw times within %g s", took)
	}
}

// A job with a program that is none is not planned, and not run if it is stored.
func TestTransformIsChecked(t *testing.T) {
	f := newFixture(t)
	f.storePublished(1)
	job := f.job("")
	job.Transform = "nosuch"
	if _, err := f.Plan(t.Context(), job); err == nil || !strings.Contains(err.Error(), "function not defined") {
		t.Errorf("planned with %v", err)
	}
	job.ID, job.State, job.UpTo = f.source+"-bad", Planned, f.sequence
	f.storeJob(job)
	if _, err := f.Run(t.Context(), job.ID, RunOptions{}); err == nil || !strings.Contains(err.Error(), "function not defined") {
		t.Errorf("run with %v", err)
	}
	job.ID, job.Transform = "", `reduce range(28) as $i (0; [.,.]) | . == map(.)`
	var stuck *transform.LimitError
	if _, err := f.Plan(t.Context(), job); !errors.As(err, &stuck) {
		t.Errorf("planned with %v", err)
	}
}

// The body that an event does not have is read from another event before the program runs.
func TestTransformOfABodyElsewhere(t *testing.T) {
	f := newFixture(t)
	handled := f.event(schemas.Handled, f.message(1))
	handled.BodyIn, handled.Envelope.Body = schemas.BodyInPublished, nil
	f.storeEvents(f.published(1), handled)
	job := f.job("event.action: handled")
	job.Transform = `.body.order += 1 | .headers = {} | .headers.CC = ["a"]`
	if plan := f.plan(job); plan.Matched != 1 || plan.Bodiless != 0 || !strings.Contains(string(plan.Examples[0].After), `"order":2`) {
		t.Errorf("the plan: %+v", plan)
	}
	wantJob(t, f.run(job), Done, 1, 0)
	if d := f.drain(f.queue); len(d) != 1 || string(d[0].Body) != `{"order":2}` {
		t.Errorf("arrived: %+v", d)
	}
}
