package replayer

import (
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// A consumer may claim that its message came from an exchange to which it may not publish.
// A replay sends there only what the tap saw there, and to the failed queue every message.
func TestClaimedOriginsAreProven(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, broker rabbittest.Broker) {
		f := newFixtureOn(t, broker)
		claimed := func(n int, change func(*schemas.Event)) schemas.Event {
			e := f.poisoned(n)
			e.OriginClaimed = true
			if change != nil {
				change(&e)
				e.Fingerprint = e.Envelope.Fingerprint()
			}
			return e
		}
		folded := f.published(5) // seen elsewhere, and of the fingerprint of its forged x-death
		folded.Envelope.Exchange, folded.Fingerprint = "elsewhere", f.message(5).Fingerprint()
		f.storeEvents(
			f.published(1), claimed(1, nil), // proven
			f.published(2), claimed(2, func(e *schemas.Event) { e.Envelope.Body = []byte("another") }),
			f.published(3), claimed(3, func(e *schemas.Event) { e.Envelope.RoutingKey = "another" }),
			claimed(4, func(e *schemas.Event) { e.Envelope.Exchange, e.Envelope.RoutingKey = "", f.source+"-repair" }),
			folded, claimed(5, nil),
			f.poisoned(6), // no claim
		)
		key := "order.created"
		for name, test := range map[string]struct {
			target  Target
			total   int
			leftOut int
		}{
			"to the origin":             {Target{Kind: ToOrigin}, 2, 4},
			"to an exchange":            {Target{Kind: ToExchange, Exchange: f.exchange}, 2, 4},
			"with a key":                {Target{Kind: ToExchange, Exchange: f.exchange, Key: &key}, 6, 0},
			"to the failed queue":       {Target{Kind: ToFailedQueue}, 6, 0},
			"to a queue of an operator": {Target{Kind: ToQueue, Queue: f.queue}, 6, 0},
		} {
			job := f.job("event.action: poisoned")
			job.Target = test.target
			if plan := f.plan(job); plan.Matched != test.total || plan.LeftOut[OriginClaimed] != test.leftOut {
				t.Errorf("%s: %d to send, left out %v", name, plan.Matched, plan.LeftOut)
			}
		}
		job := f.job("event.action: poisoned")
		wantJob(t, f.run(job), Done, 2, 0)
		if n := f.broker.Len(t, f.queue); n != 2 {
			t.Errorf("%d messages sent", n)
		}
		f.broker.Take(t, f.queue, 2)

		job = f.job("event.action: poisoned")
		job.Target, job.Again = Target{Kind: ToFailedQueue}, true
		wantJob(t, f.run(job), Done, 6, 0)
		claims := 0
		for _, d := range f.broker.Take(t, f.queue, 6) {
			verified, err := f.verify(d, f.queue)
			if err != nil || verified.Mismatch {
				t.Fatal(verified, err)
			}
			if verified.State.OriginClaimed {
				claims++
			}
		}
		if claims != 5 {
			t.Errorf("%d messages in the queue say that their origin is a claim: expected 5", claims)
		}
	})
}

// A resumed job decides about a claim as before, also if the event that proves it is behind the
// cursor: the message is not sent again, nor counted twice.
func TestClaimProvenAfterTheCursor(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, broker rabbittest.Broker) {
		f := newFixtureOn(t, broker)
		claimed := f.poisoned(1)
		claimed.OriginClaimed = true
		f.storeEvents(claimed, f.published(1), f.published(2))
		job := f.resume(f.create(f.job("")), RunOptions{StopAfter: 1})
		if job.State != Paused || job.Sent != 1 {
			t.Fatalf("%s, sent %d", job.State, job.Sent)
		}
		f.broker.Take(t, f.queue, 1)
		f.indexLog()
		wantJob(t, f.resume(job, RunOptions{}), Done, 2, 0)
		if got := f.receivedIDs(f.queue); got != "m-2" {
			t.Errorf("sent %s after the cursor", got)
		}
	})
}
