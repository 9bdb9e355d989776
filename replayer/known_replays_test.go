package replayer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/replayer/edit"
	"github.com/watershipmq/watership/schemas"
)

// TestAlreadyReplayed: messages that were replayed to the same target are left out,
// unless they failed again later.
func TestAlreadyReplayed(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	f.storeEvents(f.poisoned(1), f.poisoned(2))
	order := f.job("event.action: poisoned")
	order.Target.Kind = ToFailedQueue
	first := f.run(order)
	wantJob(t, first, Done, 2, 0)
	replayed := f.indexLog()

	plan := f.plan(order)
	if plan.Matched != 0 || plan.LeftOut[AlreadyReplayed] != 2 {
		t.Errorf("the second time: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	again := order
	again.Again = true
	if plan := f.plan(again); plan.Matched != 2 {
		t.Errorf("again: %d to send", plan.Matched)
	}
	elsewhere := order
	elsewhere.Target.Kind = ToOrigin
	if plan := f.plan(elsewhere); plan.Matched != 2 {
		t.Errorf("to another target: %d to send", plan.Matched)
	}

	// The replayed message fails again, and its `poisoned` event is stored before the
	// `replayed` event.
	failure := f.poisoned(1)
	failure.Replay, failure.ReplayOf = first.ID, replayed[0].ReplayOf
	failure.Sequence = replayed[0].Sequence - 1
	f.storeEvents(failure)
	plan = f.plan(order)
	if plan.Matched != 1 || plan.Sample[0].EventID != failure.EventID {
		t.Errorf("after it failed again: %+v", plan)
	}
	second := f.run(order)
	wantJob(t, second, Done, 1, 0)
	f.indexLog()
	if plan := f.plan(order); plan.Matched != 0 {
		t.Errorf("after the second replay: %d to send", plan.Matched)
	}
}

// TestReplayDoesNotDoubleTheArchive replays the whole archive twice, the second time
// with the tap's copies of the first replay.
func TestReplayDoesNotDoubleTheArchive(t *testing.T) {
	f := newFixture(t)
	f.storeEvents(f.published(1), f.event(schemas.Published, anonymous(f.message(2))), f.event(schemas.Published, anonymous(f.message(2))))
	order := f.job("event.action: published")
	first := f.run(order)
	wantJob(t, first, Done, 3, 0)
	decoder := wire.Decoder{Source: f.source, VHost: "/", Topology: f.cfg.Topology}
	for _, d := range f.drain(f.queue) {
		f.sequence++
		f.storeEvents(decoder.Tapped(d, time.Now(), f.sequence))
	}
	f.indexLog()
	if plan := f.plan(order); plan.Matched != 0 || plan.LeftOut[AlreadyReplayed] != 6 {
		t.Errorf("the second time: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	order.Again = true
	second := f.run(order)
	wantJob(t, second, Done, 3, 0)
}

// consume acts as the consumer of a queue, the tap and the indexer: each message is
// handled, and recorded if it was published to the shop.
func (f *fixture) consume(queue string) {
	f.t.Helper()
	decoder := wire.Decoder{Source: f.source, VHost: "/", Topology: f.cfg.Topology}
	for _, d := range f.drain(queue) {
		if d.Exchange == f.exchange {
			f.sequence++
			f.storeEvents(decoder.Tapped(d, time.Now(), f.sequence))
		}
		verified, err := f.verify(d, queue)
		if err != nil {
			f.t.Fatal(err)
		}
		handled := f.event(schemas.Handled, verified.Envelope)
		handled.Queue, handled.Message = queue, ""
		handled.Replay, handled.ReplayOf = verified.State.Replay, verified.State.ReplayOf
		f.storeEvents(handled)
	}
	f.indexLog()
}

// TestReplayNeverRepeats: a second replay to the same target sends nothing, whichever
// events of a message its query finds, including the events of the first replay.
func TestReplayNeverRepeats(t *testing.T) {
	t.Parallel() // most of it is waiting
	key := "repair"
	for name, target := range map[string]Target{
		"origin": {Kind: ToOrigin}, "failed queue": {Kind: ToFailedQueue},
		"queue": {Kind: ToQueue, Queue: "-repair"}, "exchange": {Kind: ToExchange, Key: &key},
	} {
		for changed, changes := range map[string]edit.Changes{"": {}, ", changed": {Set: []string{"fixed=yes"}}} {
			t.Run(name+changed, func(t *testing.T) { testReplayNeverRepeats(t, target, changes) })
		}
	}
}

func testReplayNeverRepeats(t *testing.T, target Target, changes edit.Changes) {
	f := newFixture(t)
	repair := f.source + "-repair"
	f.bind(repair, "", "", nil)
	switch target.Kind {
	case ToQueue:
		target.Queue = repair
	case ToExchange:
		target.Exchange = f.exchange
	}
	named, nameless := f.message(1), anonymous(f.message(2))
	var events []schemas.Event
	for _, e := range []schemas.Envelope{named, nameless} {
		retried, poisoned := f.event(schemas.RetryScheduled, e), f.event(schemas.Poisoned, e)
		poisoned.Message = retried.Message
		events = append(events, f.event(schemas.Published, e), retried, poisoned)
	}
	f.storeEvents(events...)
	order := f.job("")
	order.Target, order.Changes = target, changes
	first := f.run(order)
	wantJob(t, first, Done, 2, 0)
	f.consume(f.queue)
	f.consume(repair)
	for _, text := range []string{
		"", "event.action: handled", "event.action: replayed", "event.action: published", "messaging.message.id: m-1",
		"watership.replay.job: *", "watership.queue: *", "event.action: (handled or replayed)",
	} {
		again := order
		again.Query = f.job(text).Query
		if text == "watership.queue: *" {
			again.Query += " and messaging.message.id: m-1" // a failure does not tell which message without an id it concerns
		}
		if plan := f.plan(again); plan.Matched != 0 {
			t.Errorf("the second time, %q: %d to send such as %s %s, left out %v", text, plan.Matched, plan.Sample[0].Action, plan.Sample[0].EventID, plan.LeftOut)
		}
	}
	again := order
	again.Again = true
	if plan := f.plan(again); plan.Matched != 2 {
		t.Errorf("again: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	order.Target = Target{Kind: ToQueue, Queue: f.queue}
	if plan := f.plan(order); plan.Matched != 2 {
		t.Errorf("to another target: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
}

// TestReplayIsKnownByItsEvents: the events of a replayed message name the job, even if
// the `replayed` event is no longer in the store.
func TestReplayIsKnownByItsEvents(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixtureOn(t, rabbittest.Newest(t))
	f.storeEvents(f.published(1))
	wantJob(t, f.run(f.job("")), Done, 1, 0)
	f.drain(f.cfg.Topology.Log()) // removes the `replayed` event
	f.consume(f.queue)
	later := time.Now().Add(2 * recordLag)
	f.now = func() time.Time { return later }
	if plan := f.plan(f.job("event.action: handled")); plan.Matched != 0 || plan.LeftOut[AlreadyReplayed] != 1 {
		t.Errorf("%d to send, left out %v", plan.Matched, plan.LeftOut)
	}
	elsewhere := f.job("event.action: handled")
	elsewhere.Target = Target{Kind: ToQueue, Queue: f.queue}
	if plan := f.plan(elsewhere); plan.Matched != 1 {
		t.Errorf("to another target: %d to send, left out %v", plan.Matched, plan.LeftOut)
	}
}

// TestOutcomes: messages a to g were sent. The queue "another" reported about e and f
// before.
func TestOutcomes(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	job := Job{ID: f.source + "-outcomes", Target: Target{Kind: ToOrigin}}
	another := at("another")
	for _, n := range []int{5, 6} {
		before := f.event(schemas.Handled, f.message(n))
		another(&before)
		f.storeEvents(f.event(schemas.RetryScheduled, f.message(n)), before)
	}
	job.UpTo = f.sequence
	record := func(action schemas.Action, n int, problem string, changes ...func(*schemas.Event)) {
		e := f.event(action, f.message(n))
		e.Replay, e.ReplayOf, e.Failure.Message = job.ID, string(rune('a'+n-1)), problem
		for _, change := range changes {
			change(&e)
		}
		f.storeEvents(e)
	}
	for n := range 7 {
		record(schemas.Replayed, n+1, "")
	}
	record(schemas.RetryScheduled, 1, "busy")
	record(schemas.Handled, 1, "")
	record(schemas.RetryScheduled, 2, "no stock")
	record(schemas.Poisoned, 2, "no stock")
	record(schemas.Handled, 2, "", another)
	record(schemas.Handled, 3, "")
	record(schemas.Handled, 5, "") // and no report of another
	record(schemas.Handled, 6, "")
	record(schemas.Poisoned, 6, "no address", another)
	record(schemas.Handled, 7, "", func(e *schemas.Event) { *e = e.Quarantine("too many fields") })
	record(schemas.Handled, 8, "") // without a `replayed` event
	f.storeEvents(f.poisoned(5))

	outcomes, err := f.Outcomes(t.Context(), job)
	want := Outcomes{Handled: 3, Failed: 2, Problems: []string{"no address", "no stock"}, NotReported: []string{"another"}, Pending: []string{"d", "e"}}
	if diff := cmp.Diff(want, outcomes); err != nil || diff != "" {
		t.Errorf("(-want +got):\n%s (%v)", diff, err)
	}
	record(schemas.Handled, 5, "", another)
	if outcomes, err := f.Outcomes(t.Context(), job); err != nil || outcomes.Handled != 4 || len(outcomes.NotReported) != 0 || len(outcomes.Pending) != 1 {
		t.Errorf("after all reports: %+v (%v)", outcomes, err)
	}
}
