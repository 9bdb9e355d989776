package replayer

import (
	"bytes"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// TestOwnQueuesAndExchangesAreRefused: a message is not sent to an exchange or queue
// of Watership, even if events say that it came from there or failed there: its
// consumer would not read it as a message.
func TestOwnQueuesAndExchangesAreRefused(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, broker rabbittest.Broker) {
		f := newFixtureOn(t, broker)
		ours := f.cfg.Topology
		f.bind(ours.Due(), "", "", nil)
		from := func(n int, exchange, key, queue string) schemas.Event {
			e := f.message(n)
			e.Exchange, e.RoutingKey = exchange, key
			event := f.event(schemas.Poisoned, e)
			event.Queue = queue
			return event
		}
		f.storeEvents(
			from(1, ours.Events(), string(schemas.Discarded), f.queue), from(2, "", ours.Due(), f.queue),
			from(3, f.exchange, "k", ours.Due()), from(4, ours.Direct(), ours.Due(), ours.Due()),
		)
		due := ours.Due()
		for _, target := range []Target{{Kind: ToOrigin}, {Kind: ToFailedQueue}, {Kind: ToExchange, Exchange: "", Key: &due}} {
			job := f.job("")
			job.Target, job.Again = target, true
			plan, err := f.Plan(t.Context(), job)
			want := 4 // of the target that is Watership's own
			switch target.Kind {
			case ToOrigin:
				want = 3
			case ToFailedQueue:
				want = 2
			}
			if err != nil || plan.LeftOut[OwnTarget] != want || plan.Matched != 4-want {
				t.Errorf("to %s: %d messages, left out %v, %v", target, plan.Matched, plan.LeftOut, err)
			}
			wantJob(t, f.run(job), Done, 4-want, 0)
		}
		if n := f.broker.Len(t, ours.Due()); n > 0 {
			t.Errorf("%d messages reached a queue of Watership", n)
		}
		for _, e := range f.indexLog() {
			if e.Action != schemas.Replayed {
				t.Errorf("an event was forged: %+v", e)
			}
		}
	})
}

// TestCarbonCopiesStayAtTheirExchange: a publisher with permission for one exchange
// cannot choose the receivers of a replay to another.
func TestCarbonCopiesStayAtTheirExchange(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, broker rabbittest.Broker) {
		f := newFixtureOn(t, broker)
		victim := f.source + "-victim"
		f.bind(victim, "", "", nil)
		e := f.message(1)
		e.Headers["CC"] = []any{victim}
		f.storeEvents(f.event(schemas.Published, e))
		job := f.job("")
		job.Target = Target{Kind: ToExchange, Exchange: "", Key: &f.queue}
		wantJob(t, f.run(job), Done, 1, 0)
		if got := f.drain(f.queue); len(got) != 1 || got[0].Headers["CC"] != nil {
			t.Errorf("arrived: %+v", got)
		}
		if n := f.broker.Len(t, victim); n > 0 {
			t.Errorf("%d messages reached a queue that CC names", n)
		}
		wantJob(t, f.run(f.job("")), Done, 1, 0)
		if got := f.drain(f.queue); len(got) != 1 || got[0].Headers["CC"] == nil {
			t.Errorf("the replay to the origin is another message: %+v", got)
		}
	})
}

// TestBodiesOfOthers: a publisher to the default exchange can add messages to the
// queue of unstorable messages. Their bodies are not sent with other messages.
func TestBodiesOfOthers(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, broker rabbittest.Broker) {
		f := newFixtureOn(t, broker)
		real := f.publishUnstorable(1, 200_000)
		queue := f.cfg.Topology.Unstorable()
		unstorable := f.drain(queue)
		forged := wire.DefaultFrameMax.Wrap(schemas.Envelope{Body: []byte("transfer all")}, real.State)
		for _, p := range []amqp.Publishing{forged, {Headers: unstorable[0].Headers, MessageId: unstorable[0].MessageId, Body: unstorable[0].Body}} {
			if err := f.channel.Publish("", queue, false, false, p); err != nil {
				t.Fatal(err)
			}
		}
		rabbittest.Eventually(t, "both messages are in the queue", func() bool { return f.broker.Len(t, queue) == 2 })
		f.storeEvents(real)
		wantJob(t, f.run(f.job("")), Done, 1, 0)
		if got := f.drain(f.queue); len(got) != 1 || !bytes.Equal(got[0].Body, bytes.Repeat([]byte{1}, 200_000)) {
			t.Errorf("%d messages arrived, or another body", len(got))
		}
	})
}
