package pipeline

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Two queues get a message from one exchange and one of them fails: it goes to
// that one again and to no other, unchanged, not before its time, even with a TTL of
// its publisher, and not after a message that waits longer.
func TestRetryGoesOnlyToTheQueueThatFailed(t *testing.T) {
	eachSetting(t, func(t *testing.T, b setting) {
		exchange := topicExchange(t, b.Broker)
		failing, other := rabbittest.Name(t), b.Queue(t, nil)
		if err := b.Channel(t).QueueBind(other, "#", exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		type arrival struct {
			at       time.Time
			envelope schemas.Envelope
			attempt  retry.Attempt
		}
		arrivals := make(chan arrival, 10)
		r := b.start(t, func(c *Config) {
			c.Routes = []Route{{
				Queue: failing, Bind: []Binding{{exchange, "order.#"}}, Handler: handler(func(msg *message.Message) error {
					if string(msg.Payload) == "slow" {
						return onAttempt(msg, 1, retry.After(time.Minute, errBroken))
					}
					e, _ := schemas.FromContext(msg.Context())
					arrivals <- arrival{time.Now(), e, retry.AttemptFrom(msg.Context())}
					return onAttempt(msg, 1, retry.After(time.Second, errBroken))
				}),
			}}
		})
		var copies atomic.Int32
		r.follow(other, func(amqp.Delivery) { copies.Add(1) }) // before the TTL
		r.publish(exchange, "order.paid", amqp.Publishing{Body: []byte("slow")})
		r.wait(schemas.RetryScheduled)
		r.publish(exchange, "order.paid", amqp.Publishing{
			Body: []byte("fast"), Expiration: "400", Headers: amqp.Table{"tenant": "acme", "n": int64(1)},
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
		rabbittest.Eventually(t, "the other queue has got 2 messages", func() bool { return copies.Load() == 2 })
	})
}

// A broker that begins to set the times of messages while some wait changes none of
// them: they come back as they were first published.
func TestTimesSetByTheBroker(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		attempts := make(chan schemas.Envelope, 10)
		r := start(t, b, func(c *Config) {
			c.URL = b.RewriteSent(t, rabbittest.SetTimestamp)
			c.Routes = []Route{{Queue: queue, Handler: handler(func(msg *message.Message) error {
				e, _ := schemas.FromContext(msg.Context())
				attempts <- e
				return onAttempt(msg, 1, errBroken)
			})}}
		})
		foreign := b.Queue(t, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
		published := time.Unix(1700000000, 0)
		for _, to := range []string{queue, foreign} {
			r.publish("", to, amqp.Publishing{MessageId: "m", Timestamp: published, Body: []byte("x")})
		}
		for attempt := range 2 {
			e := rabbittest.Receive(t, attempts)
			if _, set := e.Headers["timestamp_in_ms"]; set || !e.Properties.Timestamp.Equal(published) {
				t.Errorf("attempt %d shows %+v", attempt+1, e)
			}
		}
		r.wait(schemas.Handled)
		rejectOne(t, b, foreign)
		rejectOne(t, b, foreign)
		if e := r.wait(schemas.Poisoned); e.Queue != foreign || e.Attempt != 2 || !e.Envelope.Properties.Timestamp.Equal(published) {
			t.Errorf("%+v", e)
		}
	})
}

// A consumer that knows nothing of Watership rejects, and sees its own message
// again: with its original routing key, at its own queue.
func TestForeignConsumer(t *testing.T) {
	t.Parallel() // most of it is waiting
	eachSetting(t, func(t *testing.T, b setting) {
		r := b.start(t, nil)
		exchange := r.exchange()
		queue := b.Queue(t, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
		if err := b.Channel(t).QueueBind(queue, "order.*", exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		deliveries, err := b.Channel(t).Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.publish(exchange, "order.paid", amqp.Publishing{Body: []byte("x"), Headers: amqp.Table{"tenant": "acme"}})
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

// Deaths differ: rejected messages are tried again, the rest is final
// with its reason, as long as the configuration says nothing else.
func TestDeaths(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		r := start(t, b, nil)
		dead := func(args amqp.Table) string {
			args["x-dead-letter-exchange"] = r.topology.Retry()
			return b.Queue(t, args)
		}
		expired := dead(amqp.Table{"x-message-ttl": int32(10)})
		full := dead(amqp.Table{"x-max-length": int32(1)})
		crashing := dead(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(1)})
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
	queue := b.Queue(t, amqp.Table{"x-message-ttl": int32(10), "x-dead-letter-exchange": r.topology.Retry()})
	publishTo(t, b, queue, "x")
	if e := r.wait(schemas.Poisoned); e.Attempt != 2 || len(r.all(func(e event) bool { return e.Action == schemas.RetryScheduled })) != 1 {
		t.Errorf("%+v\n%s", e.State, r.eventText())
	}
}

// A queue that is gone when its message is due: the message waits for the grace
// period, then it is poison with the reason.
func TestDeletedTarget(t *testing.T) {
	eachSetting(t, func(t *testing.T, b setting) {
		r := b.start(t, func(c *Config) {
			c.ReturnGrace, c.ReturnPause = time.Second, 100*time.Millisecond
			c.Default = attemptsAfter(300 * time.Millisecond)
		})
		queue := b.Queue(t, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
		publishTo(t, b.Broker, queue, "x")
		rejectOne(t, b.Broker, queue)
		scheduled := r.wait(schemas.RetryScheduled)
		if _, err := b.Channel(t).QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		e := r.wait(schemas.Poisoned)
		if !strings.HasPrefix(e.Failure.Message, `could not be returned to queue "`+queue) ||
			!strings.Contains(e.Failure.Message, "rejected by a consumer") || e.Attempt != 1 {
			t.Errorf("%+v", e.State)
		}
		rabbittest.Eventually(t, "the log to say that it was given up", func() bool { return r.log.Count("a message is poison") > 0 })
		if poisoned := r.log.Count("a message is poison"); poisoned != 1 {
			t.Errorf("given up %d times", poisoned)
		}
		if waited := time.Since(scheduled.Time); waited < 1300*time.Millisecond {
			t.Errorf("given up after %s", waited)
		}
	})
}

// A classic queue whose node is down is not gone, although RabbitMQ answers with the code of a queue that
// does not exist: its messages wait for it, however long.
func TestTargetOnANodeThatIsDown(t *testing.T) {
	const down = "NOT_FOUND - home node 'rabbit@two' of durable queue 'q' in vhost '/' is down or inaccessible"
	inside := broker.Start(t, broker.Config{})
	b := rabbittest.Broker{Version: broker.RabbitMQ43.Version(), Own: true, Address: rabbittest.Address{URL: inside.URL() + "/"}}
	r := start(t, b, func(c *Config) { c.ReturnGrace, c.ReturnPause = time.Millisecond, 20*time.Millisecond })
	queue := b.Queue(t, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
	var asked atomic.Int32
	isUp := inside.Inject(broker.Fault{
		Method: "queue.bind", Match: func(r broker.Request) bool { return r.Queue == queue && asked.Add(1) > 0 }, Do: broker.CloseChannel(amqp.NotFound, down),
	})
	publishTo(t, b, queue, "x")
	rejectOne(t, b, queue)
	rabbittest.Eventually(t, "it was tried several times, or given up", func() bool {
		return asked.Load() >= 5 || len(r.all(ofQueue(queue, schemas.Poisoned))) > 0
	})
	isUp()
	rabbittest.Eventually(t, "the message is back", func() bool {
		return b.Len(t, queue) == 1 || len(r.all(ofQueue(queue, schemas.Poisoned))) > 0
	})
	if len(r.all(ofQueue(queue, schemas.Poisoned))) > 0 {
		t.Error(r.eventText())
	}
}

// A delay whose queue cannot be declared, as where a right is missing: the message
// waits for one that has a queue.
func TestDelayThatCannotBeDeclared(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			declareFor(t, b, wire.DelaysOf(c.Topology).Queue(150*time.Millisecond), amqp.Table{"x-max-length": int32(1)}) // not as it is to be
			c.Routes = []Route{{Queue: queue, Policy: attemptsAfter(50*time.Millisecond, 200*time.Millisecond), Handler: handler(
				func(msg *message.Message) error {
					return onAttempt(msg, 1, retry.After(120*time.Millisecond, errBroken))
				})}}
		})
		r.publish("", queue, amqp.Publishing{Body: []byte("x")})
		r.wait(schemas.Handled)
		if n := r.log.Count("messages wait for another delay"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// The grace period begins when a queue is first found gone, however late the message
// is by then.
func TestGraceBeginsWhenTheQueueIsMissed(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := start(t, b, func(c *Config) {
			c.ReturnGrace, c.ReturnPause = time.Hour, 100*time.Millisecond
			c.Default = attemptsAfter(50 * time.Millisecond)
		})
		queue := rabbittest.Name(t)
		late := schemas.Envelope{RoutingKey: queue, Body: []byte("x")}
		state := schemas.State{Fingerprint: late.Fingerprint()}.Failed(time.Now().Add(-24*time.Hour), 0, queue, schemas.Failure{})
		state.Delay = time.Second
		r.publish(r.topology.Direct(), wire.DelaysOf(r.topology).Queue(50*time.Millisecond), wire.DefaultFrameMax.Wrap(late, state))
		rabbittest.Eventually(t, "the message waits for its queue", func() bool {
			return publishDelayed(t, b, wire.DelaysOf(r.topology).Queue(100*time.Millisecond))
		})
		declareFor(t, b, queue, nil)
		if d := b.Take(t, queue, 1)[0]; string(d.Body) != "x" {
			t.Errorf("%+v", d)
		}
	})
}

// A queue that comes back within the grace period gets its message, though its
// binding to the return exchange went with it.
func TestRecreatedTarget(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := start(t, b, func(c *Config) { c.ReturnPause = 300 * time.Millisecond })
		args := amqp.Table{"x-dead-letter-exchange": r.topology.Retry()}
		queue := b.Queue(t, args)
		publishTo(t, b, queue, "x")
		rejectOne(t, b, queue)
		r.wait(schemas.RetryScheduled)
		ch := b.Channel(t)
		if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "the message waits for its queue", func() bool { return publishDelayed(t, b, wire.DelaysOf(r.topology).Queue(300*time.Millisecond)) })
		if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
		if d := b.Take(t, queue, 1)[0]; string(d.Body) != "x" || d.RoutingKey != queue {
			t.Errorf("%+v", d)
		}
	})
}

// publishDelayed: the pause is short, so the message may be on its way just now.
func publishDelayed(t *testing.T, b rabbittest.Broker, queue string) bool {
	ch := b.Channel(t)
	defer ch.Close()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return err == nil && q.Messages > 0
}

// A full queue refuses a returned message: the message waits again without losing an
// attempt, and others are not delayed.
func TestFullTarget(t *testing.T) {
	t.Parallel() // most of it is waiting
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
		full := b.Queue(t, amqp.Table{
			"x-dead-letter-exchange": r.topology.Retry(), "x-max-length": int32(1), "x-overflow": "reject-publish",
		})
		publishTo(t, b, full, "first")
		rejectOne(t, b, full)
		publishTo(t, b, full, "in the way")
		r.wait(schemas.RetryScheduled)
		rabbittest.Eventually(t, "the message waits for room", func() bool { return publishDelayed(t, b, wire.DelaysOf(r.topology).Queue(300*time.Millisecond)) })
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

// A queue that our login may not bind: the message waits until it may, and is not
// given up, since nothing is wrong with it.
func TestTargetWithoutRights(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		foreign := rabbittest.Name(t)
		without := rabbittest.Rights{Configure: ".*", Write: `^(?!` + regexp.QuoteMeta(foreign) + `$).*`, Read: ".*"}
		as := b.Login(t, without)
		r := start(t, b, func(c *Config) {
			c.URL = as.URL
			c.ReturnGrace, c.ReturnPause = time.Millisecond, 100*time.Millisecond
		})
		declareFor(t, b, foreign, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
		publishTo(t, b, foreign, "x")
		rejectOne(t, b, foreign)
		rabbittest.Eventually(t, "the log names the queue", func() bool { return r.log.Count("messages cannot be returned to a queue") == 1 })
		rabbittest.Eventually(t, "the message waits", func() bool { return publishDelayed(t, b, wire.DelaysOf(r.topology).Queue(100*time.Millisecond)) })
		b.Grant(t, as, rabbittest.Rights{Configure: ".*", Write: ".*", Read: ".*"})
		if d := b.Take(t, foreign, 1)[0]; string(d.Body) != "x" {
			t.Errorf("%+v", d)
		}
		if n := len(r.all(func(e event) bool { return e.Action == schemas.Poisoned })); n > 0 {
			t.Errorf("%d were given up", n)
		}
		if n := r.log.Count("messages cannot be returned to a queue"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// The same of a queue that another connection has for itself.
func TestExclusiveTarget(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := start(t, b, func(c *Config) { c.ReturnGrace, c.ReturnPause = time.Millisecond, 100*time.Millisecond })
		queue, parentKeys := rabbittest.Name(t), b.Channel(t)
		_, err := parentKeys.QueueDeclare(queue, true, false, true, false, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
		if err != nil {
			t.Fatal(err)
		}
		publishTo(t, b, queue, "x")
		d, _, err := parentKeys.Get(queue, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Reject(false); err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "the log names the queue", func() bool { return r.log.Count("messages cannot be returned to a queue") == 1 })
		if _, err := parentKeys.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		if e := r.wait(schemas.Poisoned); !strings.HasPrefix(e.Failure.Message, `could not be returned to queue "`+queue) {
			t.Errorf("%+v", e.State)
		}
	})
}

// openRetry makes the exchange of dead letters as a former release did: anybody with
// the right to write may publish to it.
func openRetry(t *testing.T, b rabbittest.Broker) func(*Config) {
	return func(c *Config) {
		if err := b.Channel(t).ExchangeDeclare(c.Topology.Retry(), "topic", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Dead letters whose x-death header names no queue become poison, and delay no other
// message. RabbitMQ passes on an x-death header that a client publishes.
func TestMalformedDeaths(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		r := start(t, b, openRetry(t, b))
		deathChecker := map[string]any{
			"long":     []any{amqp.Table{"queue": strings.Repeat("q", 300), "reason": "rejected"}},
			"no UTF-8": []any{amqp.Table{"queue": "\xff\xfe", "reason": "rejected"}},
			"empty":    []any{amqp.Table{"queue": "", "reason": "rejected"}},
			"unnamed":  []any{amqp.Table{"reason": "rejected"}},
			"a number": []any{amqp.Table{"queue": int64(1), "reason": "rejected"}},
			"no list":  amqp.Table{"queue": "q"},
			"strange":  []any{int64(1), []any{}, amqp.Table{"queue": []any{"q"}}},
		}
		for name, death := range deathChecker {
			r.publish(r.topology.Retry(), "", amqp.Publishing{MessageId: name, Headers: amqp.Table{"x-death": death}})
		}
		queue := b.Queue(t, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
		publishTo(t, b, queue, "honest")
		rejectOne(t, b, queue)
		if d := b.Take(t, queue, 1)[0]; string(d.Body) != "honest" {
			t.Errorf("%+v", d)
		}
		for _, e := range r.waitFor(len(deathChecker), schemas.Poisoned) {
			if deathChecker[e.Envelope.Properties.MessageID] == nil || !strings.Contains(e.Failure.Message, "x-death") {
				t.Errorf("%+v", e)
			}
		}
		if n := r.log.Count("lost"); n > 0 {
			t.Errorf("a connection was lost:\n%s", r.log)
		}
		r.quiet()
	})
}

func declareFor(t testing.TB, b rabbittest.Broker, queue string, args amqp.Table) {
	t.Helper()
	if _, err := b.Channel(t).QueueDeclare(queue, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	b.DeleteQueue(t, queue)
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

// The events of a message that the tap has not seen have its body, over its attempts.
func TestEventsOfAnUntappedMessage(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		exchange, queue := topicExchange(t, b), rabbittest.Name(t)
		var calls atomic.Int32
		r := start(t, b, func(c *Config) {
			c.Tap = []Tap{{Exchange: exchange, Type: "topic"}}
			c.Default = attemptsAfter(5 * time.Millisecond)
			c.Routes = []Route{{Queue: queue, Handler: handler(func(*message.Message) error {
				if calls.Add(1)%2 == 1 {
					return errBroken
				}
				return nil
			})}}
		})
		for untapped, size := range map[bool]int{true: len("edited"), false: 0} {
			e := schemas.Envelope{Exchange: exchange, RoutingKey: "a", Body: []byte("edited")}
			state := schemas.State{Fingerprint: e.Fingerprint(), Queue: queue, Replay: "job", ReplayOf: fmt.Sprint(untapped), Untapped: untapped}
			r.publish(r.topology.Direct(), queue, wire.DefaultFrameMax.WrapForQueue(e, state, "guest"))
			for _, action := range []schemas.Action{schemas.RetryScheduled, schemas.Handled} {
				var found []event
				rabbittest.Eventually(t, string(action), func() bool {
					found = r.all(func(e event) bool { return e.Action == action && e.ReplayOf == fmt.Sprint(untapped) })
					return len(found) == 1
				})
				if found[0].Body != size {
					t.Errorf("untapped %v: %s has a body of %d bytes", untapped, action, found[0].Body)
				}
			}
		}
	})
}
