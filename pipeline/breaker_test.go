package pipeline

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A service is unavailable while a hundred messages wait: the consumer of its
// route stops, single messages are tried, no attempt is lost, another route goes
// on, and then everything is handled.
func TestUnavailableRoutePauses(t *testing.T) {
	const backlog, concurrency = 100, 4
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		sick, well := b.Queue(t, nil), b.Queue(t, nil)
		var away atomic.Bool
		var calls atomic.Int32
		away.Store(true)
		for i := range backlog {
			publishTo(t, b, sick, fmt.Sprint("m", i))
		}
		r := start(t, b, func(c *Config) {
			c.Breaker = retry.Breaker{First: 100 * time.Millisecond, Cap: 400 * time.Millisecond}
			c.Routes = []Route{
				{Queue: sick, Concurrency: concurrency, Handler: handler(func(*message.Message) error {
					calls.Add(1)
					if away.Load() {
						return retry.Unavailable(errBroken)
					}
					return nil
				})},
				{Queue: well, Handler: handler(func(*message.Message) error { return nil })},
			}
		})
		rabbittest.Eventually(t, "three probes", func() bool { return calls.Load() >= concurrency+3 })
		rabbittest.Eventually(t, "the consumer stops", func() bool { return consumers(t, b, sick) == 0 })
		if n := b.Len(t, sick); n < backlog/2 {
			t.Errorf("only %d of %d messages stay in the queue", n, backlog)
		}
		publishTo(t, b, well, "other")
		if e := r.wait(schemas.Handled); e.Queue != well {
			t.Errorf("%+v", e)
		}
		if n := r.log.Count("route paused"); n != 1 {
			t.Errorf("logged %d times that the route paused", n)
		}
		if e := r.wait(schemas.Paused); e.Queue != sick || e.Failure.Message != errBroken.Error() || e.FirstFailed.IsZero() {
			t.Errorf("%+v", e.State)
		}
		states := r.pipeline.Routes()
		if len(states) != 2 || states[0].Queue != sick || states[0].Paused.IsZero() || states[0].Error != errBroken.Error() || !states[1].Paused.IsZero() {
			t.Errorf("%+v", states)
		}
		away.Store(false)
		r.waitFor(backlog+1, schemas.Handled)
		rabbittest.Eventually(t, "the route resumes", func() bool { return r.log.Count("route resumed") == 1 })
		if e := r.wait(schemas.Resumed); e.Queue != sick || e.Duration <= 0 || !r.pipeline.Routes()[0].Paused.IsZero() {
			t.Errorf("%+v", e.State)
		}
		for _, e := range r.all(func(e event) bool { return e.Action == schemas.Handled && e.Queue == sick }) {
			if e.Attempt != 1 || len(e.Attempts) > 0 {
				t.Errorf("an attempt was lost: %+v", e.State)
			}
		}
		waits := len(r.all(func(e event) bool { return e.Action == schemas.RetryScheduled }))
		if probes := int(calls.Load()) - backlog; waits > probes || waits > backlog/2 {
			t.Errorf("%d events for %d unavailable outcomes", waits, probes)
		}
	})
}

// The probes of a pause grow apart up to their cap.
func TestProbesGrowApart(t *testing.T) {
	b := rabbittest.Newest(t)
	queue := b.Queue(t, nil)
	for i := range 10 {
		publishTo(t, b, queue, fmt.Sprint("m", i))
	}
	calls := make(chan time.Time, 20)
	start(t, b, func(c *Config) {
		c.Breaker = retry.Breaker{Messages: 1, First: 100 * time.Millisecond, Cap: 400 * time.Millisecond}
		c.Routes = []Route{{Queue: queue, Concurrency: 1, Handler: handler(func(*message.Message) error {
			calls <- time.Now()
			return retry.Unavailable(errBroken)
		})}}
	})
	last := rabbittest.Receive(t, calls)
	for i, want := range []time.Duration{100, 200, 400, 400} {
		at := rabbittest.Receive(t, calls)
		if pause := at.Sub(last); pause < want*time.Millisecond {
			t.Errorf("probe %d came after %s, want %s at least", i+1, pause, want*time.Millisecond)
		}
		last = at
	}
}

// A slow handler is not hurried when its route pauses, and keeps no message waiting
// that was handed out with its own.
func TestPauseLetsHandlersFinish(t *testing.T) {
	b := rabbittest.Newest(t)
	queue := b.Queue(t, nil)
	var slow, fast atomic.Int32
	release := make(chan struct{})
	r := start(t, b, func(c *Config) {
		c.StopTimeout = 50 * time.Millisecond
		c.Breaker = retry.Breaker{First: 20 * time.Millisecond, Cap: 20 * time.Millisecond}
		c.Routes = []Route{{Queue: queue, Concurrency: 2, Handler: handler(func(msg *message.Message) error {
			if string(msg.Payload) == "slow" {
				slow.Add(1)
				<-release
				return msg.Context().Err()
			}
			if fast.Add(1) <= 5 {
				return retry.Unavailable(errBroken)
			}
			return nil
		})}}
	})
	publishTo(t, b, queue, "slow")
	rabbittest.Eventually(t, "the slow one is handled", func() bool { return slow.Load() == 1 })
	for i := range 6 {
		publishTo(t, b, queue, fmt.Sprint("m", i))
	}
	rabbittest.Eventually(t, "the route resumes", func() bool { return r.log.Count("route resumed") > 0 })
	r.waitFor(6, schemas.Handled)
	close(release)
	for _, e := range r.waitFor(7, schemas.Handled) {
		if e.Attempt != 1 {
			t.Errorf("%+v", e)
		}
	}
	if n := slow.Load(); n != 1 {
		t.Errorf("the slow message was handled %d times", n)
	}
}

func publishTo(t testing.TB, b rabbittest.Broker, queue, body string) {
	t.Helper()
	b.Publish(t, queue, amqp.Publishing{Body: []byte(body), MessageId: body, DeliveryMode: amqp.Persistent})
}

func consumers(t testing.TB, b rabbittest.Broker, queue string) int {
	t.Helper()
	return b.Look(t, queue).Consumers
}
