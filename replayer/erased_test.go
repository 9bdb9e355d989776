package replayer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// subjectStore has the keys of subjects in the store of a test, unless it is away.
type subjectStore struct {
	keptSubjects
	away *atomic.Bool
}

type keptSubjects interface {
	privacy.SubjectKeys
	DestroySubjectKeys(ctx context.Context, subjects []string) ([]string, error)
}

func (s subjectStore) SubjectKeys(ctx context.Context, subjects []string) (map[string][]byte, error) {
	if s.away.Load() {
		return nil, &eventstore.Error{Kind: eventstore.Unavailable, Reason: "the keys are away"}
	}
	return s.keptSubjects.SubjectKeys(ctx, subjects)
}

// ofCustomers are the rules and keys of a test whose messages are about customers.
type ofCustomers struct {
	f        *fixture
	redactor *privacy.Redactor
	keys     subjectStore
	customer string // as in the id of each, so that tests that share a store have their own
}

func newOfCustomers(f *fixture) ofCustomers {
	f.t.Helper()
	hashKeys, err := privacy.ParseHashKeys([]byte(strings.Repeat("0a", 32)))
	if err != nil {
		f.t.Fatal(err)
	}
	originals, err := privacy.ParseKeys([]byte("a " + strings.Repeat("0b", 32)))
	if err != nil {
		f.t.Fatal(err)
	}
	c := ofCustomers{f: f, keys: subjectStore{f.store.(keptSubjects), new(atomic.Bool)}, customer: "C-" + f.source + "-"}
	c.redactor, err = privacy.New(privacy.Config{
		Rules:    []privacy.Rule{{Header: "customer", As: "customer", Subject: true}, {JSON: "customer", As: "customer", Subject: true}},
		HashKeys: hashKeys, Originals: originals, Subjects: c.keys,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.cfg.Opener = c.redactor
	return c
}

func (c ofCustomers) name(customer int) string { return c.customer + fmt.Sprint(customer) }

// message returns message n, which is about a customer whom its body names, and of an even one also its header and its
// routing key.
func (c ofCustomers) message(n, customer int) schemas.Envelope {
	name := c.name(customer)
	e := c.f.message(n)
	e.Body = fmt.Appendf(nil, "{\"order\": %d,\r\n\"customer\": %q}", n, name)
	if n%2 == 0 {
		e.Headers, e.RoutingKey = amqp.Table{"customer": name}, "order."+name
	}
	return e
}

// record stores events as an indexer does.
func (c ofCustomers) record(events ...schemas.Event) {
	c.f.t.Helper()
	redact, err := c.redactor.Prepare(c.f.t.Context(), events)
	if err != nil {
		c.f.t.Fatal(err)
	}
	for i, e := range events {
		events[i] = redact(e)
	}
	c.f.storeEvents(events...)
}

func (c ofCustomers) erase(customer int) {
	c.f.t.Helper()
	hashes := c.redactor.Subjects(c.name(customer))
	if _, err := c.keys.DestroySubjectKeys(c.f.t.Context(), hashes); err != nil {
		c.f.t.Fatal(err)
	}
	c.redactor.Forget(hashes...)
}

// A plan counts erased messages, and its job sends all others as they were published: with a program and without one,
// also where the body of a message is in another event, and where its customer has a new key.
func TestErasedMessages(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		f := newFixtureOn(t, b)
		c := newOfCustomers(f)
		for n := range 9 {
			e := c.message(n, n%3)
			handled := f.event(schemas.Handled, e)
			handled.BodyIn, handled.Envelope.Body = schemas.BodyInPublished, nil // of an odd message, it does not know the customer
			c.record(f.event(schemas.Published, e), handled)
		}
		c.erase(1)
		c.record(f.event(schemas.Published, c.message(9, 1)))
		for name, test := range map[string]struct {
			query, program  string
			matched, erased int
		}{
			"without a program": {"event.action: published", "", 10, 3},
			"with a program":    {"event.action: published", ".headers.again = 1", 10, 3},
			"bodies elsewhere":  {"event.action: handled", "", 9, 3},
			"and a program":     {"event.action: handled", ".headers.again = 1", 9, 3},
			"unknown customers": {"event.action: handled and messaging.message.id: (m-1 or m-3 or m-7)", "", 3, 2},
		} {
			job := f.job(test.query)
			job.Transform, job.Again = test.program, true
			plan := f.plan(job)
			if plan.Matched != test.matched || plan.Erased != test.erased || plan.Untransformed+plan.Bodiless > 0 {
				t.Errorf("%s: %d match, %d are erased, %d fail, %d have no body", name, plan.Matched, plan.Erased, plan.Untransformed, plan.Bodiless)
			}
			routed := 0
			for _, route := range plan.Routes {
				routed += route.Messages
				if test.program == "" && strings.Contains(route.RoutingKey, c.customer) {
					t.Errorf("%s: the plan shows %s", name, route.RoutingKey)
				}
			}
			if routed != test.matched-test.erased {
				t.Errorf("%s: %d messages have a route", name, routed)
			}
			job, err := f.Create(t.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			ran := f.resume(job, RunOptions{})
			wantJob(t, ran, Done, test.matched-test.erased, test.erased)
			if ran.Erased != test.erased || ran.Processed() != ran.Total {
				t.Errorf("%s: %+v", name, ran)
			}
			for _, failure := range ran.Failures {
				if failure.Cause != SubjectErased || strings.Contains(failure.Reason, c.customer) {
					t.Errorf("%s: %+v", name, failure)
				}
			}
			sent := map[string]bool{}
			for _, d := range f.drain(f.queue) {
				sent[d.MessageId] = true
				var n int
				if _, err := fmt.Sscanf(d.MessageId, "m-%d", &n); err != nil {
					t.Fatal(err)
				}
				customer := n % 3
				if n == 9 {
					customer = 1
				}
				want := c.message(n, customer)
				isSame := bytes.Equal(d.Body, want.Body) || test.program != "" && bytes.Contains(d.Body, []byte(c.name(customer)))
				if !isSame || d.RoutingKey != want.RoutingKey || d.Headers["customer"] != want.Headers["customer"] {
					t.Errorf("%s: %s %s %v: %s", name, d.MessageId, d.RoutingKey, d.Headers, d.Body)
				}
			}
			if len(sent) != test.matched-test.erased || sent["m-1"] || sent["m-4"] || sent["m-7"] {
				t.Errorf("%s: sent %v", name, sent)
			}
			f.drain(f.cfg.Topology.Log())
		}
	})
}

// While the keys are away nobody knows what was erased: there is no plan, and a job that runs is not done.
func TestErasedMessagesWhileTheKeysAreAway(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	c := newOfCustomers(f)
	c.record(f.event(schemas.Published, c.message(1, 1)))
	job := f.create(f.job(""))
	c.redactor.Forget(c.redactor.Subjects(c.name(1))...)
	c.keys.away.Store(true)
	for _, program := range []string{"", "."} {
		asked := f.job("")
		asked.Transform = program
		if plan, err := f.Plan(t.Context(), asked); err == nil || !strings.Contains(err.Error(), "the keys are away") {
			t.Errorf("with the program %q: %+v, %v", program, plan, err)
		}
	}
	ran, err := f.Run(t.Context(), job.ID, RunOptions{})
	if unread, is := errors.AsType[*eventstore.Error](err); !is || unread.Kind != eventstore.Unavailable {
		t.Errorf("it ran: %v", err)
	}
	wantJob(t, ran, Failed, 0, 0)
	c.keys.away.Store(false)
	wantJob(t, f.resume(job, RunOptions{}), Done, 1, 0)
}

// Erased messages tell nothing of the target, so that they stop no ramp.
func TestRampGoesOnAfterErasedMessages(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	c := newOfCustomers(f)
	for n := range 20 {
		c.record(f.event(schemas.Published, c.message(n, n%2)))
	}
	c.erase(1)
	consumer := newReporter(t, f, f.queue)
	defer consumer.index()()
	job := f.job("event.action: published")
	job.Ramp, job.Rate = Ramp{First: 4, StopIf: limits("failed > 0")}, 5 // so that the second step is judged while it is sent
	ran := f.run(job)
	wantJob(t, ran, Done, 10, 10)
	if len(ran.Steps) != 1 || ran.Steps[0].Failed > 0 || ran.Steps[0].Handled != 4 {
		t.Errorf("%+v", ran.Steps)
	}
}

// A step has messages that were sent, also if the first ones were erased: the rest would follow without a verdict.
func TestRampIsJudgedByMessagesThatWereSent(t *testing.T) {
	f := newFixtureOn(t, rabbittest.Embedded(t))
	c := newOfCustomers(f)
	for n := range 6 {
		c.record(f.event(schemas.Published, c.message(n, n/3)))
	}
	c.erase(0)
	consumer := newReporter(t, f, f.queue)
	consumer.fails["m-3"] = true
	defer consumer.index()()
	job := f.job("event.action: published")
	job.Ramp = Ramp{First: 1, StopIf: limits("failed > 0")}
	job = f.create(job)
	ran, err := f.Run(t.Context(), job.ID, RunOptions{})
	if stopped, is := errors.AsType[*StoppedError](err); !is {
		t.Errorf("%v, %v", stopped, err)
	}
	wantJob(t, ran, Paused, 1, 3)
	if len(ran.Steps) != 1 || ran.Steps[0].Sent != 1 || ran.Steps[0].Failed != 1 || ran.Steps[0].End != 4 {
		t.Errorf("%+v", ran.Steps)
	}
}
