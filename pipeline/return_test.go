package pipeline

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Two queues get a message from one exchange and one of them fails: it goes to
// that one again and to no other, as it was, and not before its time, whatever
// TTL its publisher set, and not behind a message that waits longer.
func TestRetryGoesOnlyToTheQueueThatFailed(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		exchange := topicExchange(t, b)
		failing, other := rabbittest.Name(t), b.Queue(t, nil)
		if err := b.Channel(t).QueueBind(other, "#", exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		type arrival struct {
			at       time.Time
			envelope schemas.Envelope
			attempt  Attempt
		}
		arrivals := make(chan arrival, 10)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{
				Queue: failing, Bind: []Binding{{exchange, "order.#"}}, Handler: handler(func(msg *message.Message) error {
					if string(msg.Payload) == "slow" {
						return onAttempt(msg, 1, retry.After(time.Minute, errBroken))
					}
					e, _ := schemas.FromContext(msg.Context())
					arrivals <- arrival{time.Now(), e, AttemptFrom(msg.Context())}
					return onAttempt(msg, 1, retry.After(time.Second, errBroken))
				}),
			}}
		})
		r.publish(exchange, "order.paid", amqp091.Publishing{Body: []byte("slow")})
		r.wait(schemas.RetryScheduled)
		r.publish(exchange, "order.paid", amqp091.Publishing{
			Body: []byte("fast"), Expiration: "400", Headers: amqp091.Table{"tenant": "acme", "n": int64(1)},
		})
		first, second := rabbittest.Receive(t, arrivals), rabbittest.Receive(t, arrivals)
		if waited := second.at.Sub(first.at); waited < time.Second || waited > 10*time.Second {
			t.Errorf("came back after %s, want 1s", waited)
		}
		for i, got := range []arrival{first, second} {
			if got.envelope.Exchange != exchange || got.envelope.RoutingKey != "order.paid" ||
				len(got.envelope.Headers) != 2 || got.envelope.Properties.Expiration != "400" || got.attempt.Number != i+1 {
				t.Errorf("attempt %d shows %+v", i+1, got)
			}
		}
		r.wait(schemas.Handled)
		if n := b.Len(t, other); n != 2 {
			t.Errorf("the other queue has %d messages instead of 2", n)
		}
	})
}

// A consumer that knows nothing of Watership rejects, and sees its own message
// again: with its original routing key, at its own queue.
func TestForeignConsumer(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := start(t, b, nil)
		exchange := r.exchange()
		queue := b.Queue(t, amqp091.Table{"x-dead-letter-exchange": r.topology.Retry()})
		if err := b.Channel(t).QueueBind(queue, "order.*", exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		deliveries, err := b.Channel(t).Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.publish(exchange, "order.paid", amqp091.Publishing{Body: []byte("x"), Headers: amqp091.Table{"tenant": "acme"}})
		for attempt := range 2 {
			d := rabbittest.Receive(t, deliveries)
			if d.RoutingKey != "order.paid" || d.Headers["tenant"] != "acme" || string(d.Body) != "x" {
				t.Errorf("attempt %d: %+v", attempt+1, d)
			}
			if err := d.Reject(false); err != nil {
				t.Fatal(err)
			}
		}
		e := r.wait(schemas.Poisoned)
		if e.Queue != queue || e.Attempt != 2 || e.Envelope.Exchange != exchange || e.Envelope.RoutingKey != "order.paid" ||
			!strings.HasPrefix(e.Failure.Message, "rejected by a consumer of queue") || e.Failure.Type != "*pipeline.DeathError" {
			t.Errorf("%+v", e)
		}
	})
}

// Deaths are told apart: what was rejected is tried again, the rest is final
// with its reason, as long as the configuration says nothing else.
func TestDeaths(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := start(t, b, nil)
		dead := func(args amqp091.Table) string {
			args["x-dead-letter-exchange"] = r.topology.Retry()
			return b.Queue(t, args)
		}
		expired := dead(amqp091.Table{"x-message-ttl": int32(10)})
		full := dead(amqp091.Table{"x-max-length": int32(1)})
		crashing := dead(amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(1)})
		for _, queue := range []string{expired, full, full, crashing} {
			publishTo(t, b, queue, queue)
		}
		dieWith(t, b, crashing, 2)
		for _, e := range r.waitFor(3, schemas.Poisoned) {
			want := map[string]string{
				expired: "expired in queue", full: "pushed out of queue", crashing: "delivered too often from queue",
			}[e.Queue]
			if e.Attempt != 1 || want == "" || !strings.HasPrefix(e.Failure.Message, want) {
				t.Errorf("%+v, want %q", e.State, want)
			}
		}
		if n := len(r.all(func(e event) bool { return e.Action == schemas.RetryScheduled })); n > 0 {
			t.Errorf("%d were tried again", n)
		}
	})
}

// dieWith takes a message and dies with it, so often.
func dieWith(t *testing.T, b rabbittest.Broker, queue string, times int) {
	t.Helper()
	for range times {
		conn := b.Admin(t)
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		rabbittest.Receive(t, deliveries)
		_ = conn.Close()
	}
}

func TestRetriedDeaths(t *testing.T) {
	b := rabbittest.Newest(t)
	r := start(t, b, func(c *Config) { c.RetriedDeaths = []string{"expired"} })
	queue := b.Queue(t, amqp091.Table{"x-message-ttl": int32(10), "x-dead-letter-exchange": r.topology.Retry()})
	publishTo(t, b, queue, "x")
	if e := r.wait(schemas.Poisoned); e.Attempt != 2 || len(r.all(func(e event) bool { return e.Action == schemas.RetryScheduled })) != 1 {
		t.Errorf("%+v\n%s", e.State, r.lives())
	}
}

// A queue that is gone when its message is due: the message waits for the grace
// period, then it is poison with the reason.
func TestDeletedTarget(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := start(t, b, func(c *Config) {
			c.ReturnGrace, c.ReturnPause = time.Second, 100*time.Millisecond
			c.Default = attemptsAfter(300 * time.Millisecond)
		})
		queue := b.Queue(t, amqp091.Table{"x-dead-letter-exchange": r.topology.Retry()})
		publishTo(t, b, queue, "x")
		rejectOne(t, b, queue)
		scheduled := r.wait(schemas.RetryScheduled)
		if _, err := b.Channel(t).QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		e := r.wait(schemas.Poisoned)
		if !strings.HasPrefix(e.Failure.Message, `could not go back to queue "`+queue) ||
			!strings.Contains(e.Failure.Message, "rejected by a consumer") || e.Attempt != 1 {
			t.Errorf("%+v", e.State)
		}
		rabbittest.Eventually(t, "the log to say that it was given up", func() bool { return r.log.Count("gave a message up") > 0 })
		if poisoned := r.log.Count("gave a message up"); poisoned != 1 {
			t.Errorf("given up %d times", poisoned)
		}
		if waited := time.Since(scheduled.Time); waited < 1300*time.Millisecond {
			t.Errorf("given up after %s", waited)
		}
	})
}

// A queue that comes back within the grace period gets its message, though its
// binding for the last hop went with it.
func TestRecreatedTarget(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := start(t, b, func(c *Config) { c.ReturnPause = 300 * time.Millisecond })
		args := amqp091.Table{"x-dead-letter-exchange": r.topology.Retry()}
		queue := b.Queue(t, args)
		publishTo(t, b, queue, "x")
		rejectOne(t, b, queue)
		r.wait(schemas.RetryScheduled)
		ch := b.Channel(t)
		if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "the message waits for its queue", func() bool { return delayed(t, b, r.topology.Delay(300*time.Millisecond)) })
		if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
		if d := b.Take(t, queue, 1)[0]; string(d.Body) != "x" || d.RoutingKey != queue {
			t.Errorf("%+v", d)
		}
	})
}

// delayed: the pause is short, so the message may be on its way just now.
func delayed(t *testing.T, b rabbittest.Broker, queue string) bool {
	ch := b.Channel(t)
	defer ch.Close()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return err == nil && q.Messages > 0
}

// A full queue that refuses what is published: its message waits again without
// losing an attempt, and others are not held up.
func TestFullTarget(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		other := rabbittest.Name(t)
		var failed atomic.Int32
		r := start(t, b, func(c *Config) {
			c.ReturnPause = 300 * time.Millisecond
			c.Routes = []Route{{Queue: other, Handler: handler(func(msg *message.Message) error {
				failed.Add(1)
				return onAttempt(msg, 1, errBroken)
			})}}
		})
		full := b.Queue(t, amqp091.Table{
			"x-dead-letter-exchange": r.topology.Retry(), "x-max-length": int32(1), "x-overflow": "reject-publish",
		})
		publishTo(t, b, full, "first")
		rejectOne(t, b, full)
		publishTo(t, b, full, "in the way")
		r.wait(schemas.RetryScheduled)
		rabbittest.Eventually(t, "the message waits for room", func() bool { return delayed(t, b, r.topology.Delay(300*time.Millisecond)) })
		publishTo(t, b, other, "other")
		r.wait(schemas.Handled)
		if got := b.Take(t, full, 1)[0]; string(got.Body) != "in the way" {
			t.Errorf("got %s", got.Body)
		}
		deliveries, err := b.Channel(t).Consume(full, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		d := rabbittest.Receive(t, deliveries)
		if string(d.Body) != "first" {
			t.Errorf("got %s", d.Body)
		}
		if err := d.Reject(false); err != nil {
			t.Fatal(err)
		}
		if e := r.wait(schemas.Poisoned); e.Attempt != 2 {
			t.Errorf("attempt %d, want 2", e.Attempt)
		}
	})
}

func rejectOne(t *testing.T, b rabbittest.Broker, queue string) {
	t.Helper()
	ch := b.Channel(t)
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := rabbittest.Receive(t, deliveries)
	if err := d.Reject(false); err != nil {
		t.Fatal(err)
	}
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
}
