package replayer

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// TestResolvedFailuresAreLeftOut: event 1 of each message is a failure at the queue.
func TestResolvedFailuresAreLeftOut(t *testing.T) {
	t.Parallel() // most of it is waiting
	type life = func(f *fixture, failure schemas.Event) schemas.Event
	then := func(action schemas.Action, changes ...func(*schemas.Event)) life {
		return func(f *fixture, failure schemas.Event) schemas.Event {
			e := f.event(action, failure.Envelope)
			e.Message, e.Queue, e.ReplayOf = failure.Message, failure.Queue, failure.EventID
			for _, change := range changes {
				change(&e)
			}
			return e
		}
	}
	another := func(e *schemas.Event) { e.Message = "another" }
	noReplay := func(e *schemas.Event) { e.ReplayOf = "" }
	ofAnother := func(e *schemas.Event) { e.ReplayOf = "another" }
	earlier := func(e *schemas.Event) { e.Sequence -= 10 }
	changed := func(e *schemas.Event) {
		e.Envelope.Headers = amqp.Table{"tenant": "another"}
		e.Fingerprint = e.Envelope.Fingerprint()
	}
	quarantined := func(e *schemas.Event) { *e = e.Quarantine("too many fields") }
	for name, test := range map[string]struct {
		then life
		want Reason
	}{
		"handled, the same instance":            {then(schemas.Handled, noReplay), HandledSince},
		"handled before":                        {then(schemas.Handled, noReplay, earlier), ""},
		"handled elsewhere":                     {then(schemas.Handled, at("another")), ""},
		"handled, published again":              {then(schemas.Handled, another, noReplay), ""},
		"handled, replayed":                     {then(schemas.Handled, another), HandledSince},
		"handled, replayed with other headers":  {then(schemas.Handled, another, changed), HandledSince},
		"handled, which could not be recorded":  {then(schemas.Handled, noReplay, quarantined), HandledSince},
		"discarded":                             {then(schemas.Discarded, another), DiscardedSince},
		"discarded, another failure of it":      {then(schemas.Discarded, another, ofAnother), ""},
		"discarded, which could not be written": {then(schemas.Discarded, quarantined), DiscardedSince},
		"replayed, and no word of it since":     {then(schemas.Published, noReplay), ""},
	} {
		for _, action := range []schemas.Action{schemas.Poisoned, schemas.RetryScheduled} {
			t.Run(name+" after "+string(action), func(t *testing.T) {
				f := newFixture(t)
				f.sequence = 20
				failure := f.event(action, f.message(1))
				failure.Message, failure.Queue = f.source+"-instance", "orders"
				f.storeEvents(failure, test.then(f, failure))
				order := f.job("event.action: " + string(action))
				order.Target.Kind = ToFailedQueue
				want := map[Reason]int{}
				switch {
				case test.want != "":
					want[test.want] = 1
				case action == schemas.RetryScheduled: // the next attempt has not ended yet
					want[RetryScheduled] = 1
				}
				if plan := f.plan(order); !maps.Equal(plan.LeftOut, want) || plan.Matched != 1-len(want) {
					t.Errorf("%d to send, left out %v, want %v", plan.Matched, plan.LeftOut, want)
				}
				order.Again = true
				if plan := f.plan(order); plan.Matched != 1 {
					t.Errorf("again: %d to send, left out %v", plan.Matched, plan.LeftOut)
				}
			})
		}
	}
}

// TestResolvedFailuresOfReplays: a replay of a failed message to another target failed
// again. The outcome of the replay counts for both failures, but not for an equal
// message.
func TestResolvedFailuresOfReplays(t *testing.T) {
	t.Parallel() // most of it is waiting
	type life = func(f *fixture, newer schemas.Event) []schemas.Event
	then := func(action schemas.Action, replayOf bool) life {
		return func(f *fixture, newer schemas.Event) []schemas.Event {
			e := f.event(action, newer.Envelope)
			if replayOf {
				e.ReplayOf = newer.EventID
			}
			return []schemas.Event{e}
		}
	}
	for name, test := range map[string]struct {
		then life
		want Reason
	}{
		"discarded":             {then(schemas.Discarded, true), DiscardedSince},
		"replayed and handled":  {then(schemas.Handled, true), HandledSince},
		"published and handled": {then(schemas.Handled, false), ""},
		"nothing":               {func(*fixture, schemas.Event) []schemas.Event { return nil }, ""},
	} {
		for kind, change := range map[string]func(schemas.Envelope) schemas.Envelope{
			"with an id": func(e schemas.Envelope) schemas.Envelope { return e }, "without": anonymous,
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				f := newFixture(t)
				failure := f.event(schemas.Poisoned, change(f.message(1)))
				newer := f.event(schemas.Poisoned, failure.Envelope)
				newer.Replay, newer.ReplayOf = "to where it came from", failure.EventID
				f.storeEvents(append(test.then(f, newer), failure, newer)...)
				order := f.job(fmt.Sprintf("event.id: %q", failure.EventID))
				order.Target.Kind = ToFailedQueue
				if plan := f.plan(order); plan.LeftOut[test.want] != 1-plan.Matched || (test.want == "") != (plan.Matched == 1) {
					t.Errorf("%d to send, left out %v, want %q", plan.Matched, plan.LeftOut, test.want)
				}
			})
		}
	}
}

// TestResolvedByAReplayOfItsRetry: a replay of another event of the same instance
// resolves the failure, as in `watership failed`. With a rule of its own, the replayer
// sent such a message again if it had no id.
func TestResolvedByAReplayOfItsRetry(t *testing.T) {
	for kind, change := range map[string]func(schemas.Envelope) schemas.Envelope{
		"with an id": func(e schemas.Envelope) schemas.Envelope { return e }, "without": anonymous,
	} {
		t.Run(kind, func(t *testing.T) {
			f := newFixture(t)
			retried, failure := f.event(schemas.RetryScheduled, change(f.message(1))), f.event(schemas.Poisoned, change(f.message(1)))
			failure.Message = retried.Message
			replayed, handled := f.event(schemas.Replayed, failure.Envelope), f.event(schemas.Handled, failure.Envelope)
			for _, e := range []*schemas.Event{&replayed, &handled} {
				e.Replay, e.ReplayOf = "to another target", retried.EventID
			}
			replayed.Message = retried.Message
			f.storeEvents(retried, failure, replayed, handled)
			f.storeJob(Job{ID: "to another target", Target: Target{Kind: ToOrigin}, Created: time.Now()})
			order := f.job("event.action: poisoned")
			order.Target.Kind = ToFailedQueue
			if plan := f.plan(order); plan.Matched != 0 || plan.LeftOut[HandledSince] != 1 {
				t.Errorf("%d to send, left out %v", plan.Matched, plan.LeftOut)
			}
		})
	}
}

// TestDiscardedIsLeftOut: a discarded message is not sent, whichever of its events a
// query finds, including its `discarded` event.
func TestDiscardedIsLeftOut(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	failure := f.poisoned(1)
	discarded := f.event(schemas.Discarded, failure.Envelope)
	discarded.Message, discarded.ReplayOf, discarded.Queue = failure.Message, failure.EventID, failure.Queue
	f.storeEvents(failure, discarded)
	for _, text := range []string{"", "messaging.message.id: m-1", "watership.queue: *", "event.action: discarded", "event.action: poisoned"} {
		for _, kind := range []Kind{ToFailedQueue, ToOrigin} {
			order := f.job(text)
			order.Target.Kind = kind
			if plan := f.plan(order); plan.Matched != 0 || len(plan.LeftOut) != 1 || plan.LeftOut[DiscardedSince] == 0 {
				t.Errorf("%q to %s: %d to send, left out %v", text, order.Target, plan.Matched, plan.LeftOut)
			}
			order.Again = true
			if plan := f.plan(order); plan.Matched != 1 {
				t.Errorf("%q to %s again: %d to send, left out %v", text, order.Target, plan.Matched, plan.LeftOut)
			}
		}
	}
	newer := f.poisoned(1)
	f.storeEvents(newer)
	order := f.job("")
	order.Target.Kind = ToFailedQueue
	if plan := f.plan(order); plan.Matched != 1 || plan.Sample[0].EventID != newer.EventID {
		t.Errorf("after it failed again: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
}

// TestWaitingIsLeftOut: a message that waits for its next attempt is not sent.
func TestWaitingIsLeftOut(t *testing.T) {
	f := newFixture(t)
	first, second := f.event(schemas.RetryScheduled, f.message(1)), f.event(schemas.RetryScheduled, f.message(1))
	other := f.event(schemas.RetryScheduled, anonymous(f.message(2)))
	second.Message = first.Message
	f.storeEvents(first, second, other)
	order := f.job("watership.queue: *")
	order.Target.Kind = ToFailedQueue
	if plan := f.plan(order); plan.Matched != 0 || plan.LeftOut[RetryScheduled] != 3 {
		t.Errorf("%d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	elsewhere := order
	elsewhere.Target = Target{Kind: ToQueue, Queue: f.queue}
	if plan := f.plan(elsewhere); plan.Matched != 2 {
		t.Errorf("to a queue: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	poisoned := f.event(schemas.Poisoned, f.message(1))
	poisoned.Message = first.Message
	f.storeEvents(poisoned)
	if plan := f.plan(order); plan.Matched != 1 || plan.LeftOut[RetryScheduled] != 1 || plan.LeftOut[SameMessage] != 2 {
		t.Errorf("after one was poisoned: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	order.Again = true
	if plan := f.plan(order); plan.Matched != 2 {
		t.Errorf("again: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
}

// countingStore counts the events that are read.
type countingStore struct {
	Store
	read int
}

func (s *countingStore) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return counted(&s.read, s.Store.Events(ctx, selection))
}

func (s *countingStore) Summaries(ctx context.Context, selection eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	return counted(&s.read, s.Store.Summaries(ctx, selection, either...))
}

func counted[T any](count *int, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all(func(one T, err error) bool {
			*count++
			return yield(one, err)
		})
	}
}

// TestFailureAmongEqualMessages: the decision about a failure does not read all events
// of equal messages.
func TestFailureAmongEqualMessages(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixtureOn(t, rabbittest.Newest(t))
	tick := anonymous(f.message(1))
	failure := f.event(schemas.Poisoned, tick)
	events := []schemas.Event{failure}
	for range 3000 {
		handled := f.event(schemas.Handled, tick)
		handled.Message = ""
		events = append(events, handled)
	}
	f.storeEvents(events...)
	store := &countingStore{Store: f.store}
	f.cfg.Store = store
	order := f.job("event.action: poisoned")
	order.Target.Kind = ToFailedQueue
	if plan := f.plan(order); plan.Matched != 1 || store.read > 100 {
		t.Errorf("%d to send, left out %v; read %d events", plan.Matched, plan.LeftOut, store.read)
	}
}

// TestResolvedFailuresInAnArchive: a replay of all published messages, and one to
// another target, includes failed and discarded messages.
func TestResolvedFailuresInAnArchive(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	published, failure := f.published(1), f.poisoned(1)
	discarded := f.event(schemas.Discarded, failure.Envelope)
	discarded.ReplayOf, discarded.Queue = failure.EventID, failure.Queue
	f.storeEvents(published, failure, discarded)
	if plan := f.plan(f.job("")); plan.Matched != 1 || plan.LeftOut[SameMessage] != 2 {
		t.Errorf("the archive: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	order := f.job("event.action: poisoned")
	if plan := f.plan(order); plan.Matched != 0 || plan.LeftOut[DiscardedSince] != 1 {
		t.Errorf("the failures: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	order.Target = Target{Kind: ToExchange, Exchange: f.exchange}
	if plan := f.plan(order); plan.Matched != 1 {
		t.Errorf("to another exchange: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
}

// TestResolvedWhileTheJobIsPaused: an operator discards failures of a paused job, or a message is
// handled. The job leaves them out when it goes on.
func TestResolvedWhileTheJobIsPaused(t *testing.T) {
	t.Parallel() // most of it is waiting
	for name, test := range map[string]struct {
		action  schemas.Action
		again   bool
		skipped int
	}{
		"discarded":        {schemas.Discarded, false, 2},
		"handled":          {schemas.Handled, false, 2},
		"discarded, again": {schemas.Discarded, true, 0},
		"replayed":         {schemas.Replayed, false, 0}, // by this job
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			failures := []schemas.Event{f.poisoned(1), f.poisoned(2), f.poisoned(3)}
			f.storeEvents(failures...)
			order := f.job("event.action: poisoned")
			order.Target.Kind, order.Again = ToFailedQueue, test.again
			job := f.resume(f.create(order), RunOptions{StopAfter: 1})
			if job.State != Paused || job.Sent != 1 {
				t.Fatalf("the first run: %+v", job)
			}
			f.sequence += 10
			for _, failure := range failures {
				e := f.event(test.action, failure.Envelope)
				e.ReplayOf, e.Queue = failure.EventID, failure.Queue
				if test.action == schemas.Replayed {
					e.Replay = job.ID
				}
				f.storeEvents(e)
			}
			if job = f.resume(job, RunOptions{}); job.State != Done || job.Skipped != test.skipped || job.Sent != 3-test.skipped {
				t.Errorf("the second run: %+v; want %d skipped", job, test.skipped)
			}
		})
	}
}
