package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A message waits through several delay queues until an hour or the end of a window: it is
// never early, and at most a second late, as retry.Step rounds up the last of its delays.
func TestHoursAndWindowsInTheModel(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 7))
		hour := func() string { return fmt.Sprintf("%02d:%02d", random.IntN(24), random.IntN(60)) }
		policy := retry.Policy{
			Delays: []time.Duration{time.Second, time.Duration(1+random.Int64N(100_000_000)) * time.Millisecond}, At: []string{hour(), hour()},
			NoAttempts: []retry.Window{{From: hour(), To: hour()}, {Days: []string{"sun"}}, {Dates: "2023-11-20..2023-11-30"}},
		}
		if policy.Validate() != nil {
			continue
		}
		m := newModelOf(t, seed, policy)
		m.messages = 1
		m.broker.queues["own"], m.broker.queues["foreign"] = m.broker.queues["own"][:1], nil
		failEach(m)
		m.goroutines.Close()
	}
}

// A clock that is set back while a message waits in several delay queues makes the next attempt
// neither early nor late: what the queues have waited is known without a clock. The queue of
// the message may be full when it is due.
func TestClocksAreSetBack(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 8))
		delay := time.Duration(1+random.Int64N(300_000_000)) * time.Millisecond
		m := newModelOf(t, seed, retry.Policy{Delays: []time.Duration{delay}})
		m.messages = 1
		m.broker.queues["own"], m.broker.queues["foreign"] = m.broker.queues["own"][:1], nil
		m.outcome = func() error { return errBroken }
		m.consume("own")
		failed, full := m.broker.now, random.IntN(3) == 0
		m.broker.full["own"] = full
		for len(m.broker.queues["own"]) == 0 && !t.Failed() {
			m.clock = -time.Duration(random.Int64N(int64(2 * delay)))
			switch late := m.broker.now.Sub(failed.Add(delay)); {
			case len(m.broker.queues[m.broker.topology.Due()]) == 0:
				m.broker.pass()
			case late > time.Second:
				t.Fatalf("seed %d: it waits %s longer than %s", seed, late, delay)
			default:
				m.consume(m.broker.topology.Due())
				if late > -shortestRest && m.broker.full["own"] { // the retry handler found it full
					failed, m.broker.full["own"] = failed.Add(late+10*time.Second), false
				}
			}
		}
		if early := failed.Add(delay).Sub(m.broker.now); early > shortestRest {
			t.Errorf("seed %d: it returns %s before the end of %s", seed, early, delay)
		}
		_, state, err := wire.Unwrap(schemas.FromDelivery(m.broker.take("own")))
		if err != nil || state.Elapsed != 0 {
			t.Errorf("seed %d: the queue gets %+v, %v", seed, state, err)
		}
		m.goroutines.Close()
	}
}

// failEach lets each attempt of a message fail.
func failEach(m *model) {
	m.outcome = func() error { return errBroken }
	attempts, hops := 0, 0
	due, delay := m.broker.now, time.Duration(0)
	for range 200 {
		switch ready := m.ready(); {
		case len(ready) == 0 && len(m.broker.waiting) == 0:
			if want := m.policy.MaxAttempts(); attempts != want {
				m.t.Errorf("%+v: %d attempts, want %d", m.policy, attempts, want)
			}
			return
		case len(ready) == 0:
			hops++
			m.broker.pass()
		case ready[0] == "own":
			if late := m.broker.now.Sub(due); attempts > 0 && (late < -shortestRest || late > time.Second) {
				m.t.Errorf("%+v: attempt %d is at %s, %s late", m.policy, attempts+1, m.broker.now.UTC(), late)
			}
			if days := int(delay / (24 * time.Hour)); hops > days+12 {
				m.t.Errorf("%+v: it waited %s in %d delay queues", m.policy, delay, hops)
			}
			attempts++
			hops = 0
			m.consume("own")
			_, state, err := wire.Unwrap(schemas.FromDelivery(m.broker.log[len(m.broker.log)-1]))
			if err != nil {
				m.t.Fatal(err)
			}
			delay, due = state.Delay, state.Time.Add(state.Delay)
		default:
			m.consume(ready[0])
		}
	}
	m.t.Errorf("%+v: the message does not end", m.policy)
}

// A delay that has no queue is waited in several that there are, on a real broker, to the
// end and not longer, and no queue is declared for it.
func TestADelayWithoutAQueue(t *testing.T) {
	t.Parallel() // it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		const delay = 1330 * time.Millisecond
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			policy := &retry.Policy{First: delay, Attempts: 1, GiveUpAfter: time.Hour}
			c.Routes = []Route{{Queue: queue, Policy: policy, Headers: retry.Headers{Limit: "x-retry-limit"}}}
		})
		declareFor(t, b, queue, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
		ch := b.Channel(t)
		deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.publish("", queue, amqp.Publishing{Body: []byte("x"), Headers: amqp.Table{"x-retry-limit": int32(1)}})
		_ = rabbittest.Receive(t, deliveries).Reject(false)
		scheduled := r.wait(schemas.RetryScheduled)
		again := rabbittest.Receive(t, deliveries)
		_ = again.Ack(false)
		if took := time.Since(scheduled.Time); took < delay-shortestRest || scheduled.Delay != delay {
			t.Errorf("it waited %s of %s", took, scheduled.Delay)
		}
		if _, err := b.Channel(t).QueueDeclarePassive(wire.DelaysOf(r.topology).Queue(delay), true, false, false, false, nil); err == nil {
			t.Errorf("there is a queue for %s", delay)
		}
	})
}
