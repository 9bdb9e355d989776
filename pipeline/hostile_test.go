package pipeline

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// town is a pipeline with the documented rights alone, in a virtual host where others
// are: a publisher who may write to the exchange shop and do nothing else, and a queue
// that neither is to reach.
type town struct {
	*rig
	shop, orders, victim string

	mu    sync.Mutex // guards calls
	calls int        // of the route's handler, which always fails
}

const townAttempts = 3

// startTown starts a town; adjust changes its configuration and may be nil.
func startTown(t *testing.T, b rabbittest.Broker, adjust func(*Config)) *town {
	t.Helper()
	return startTownOn(t, b.VHost(t), adjust)
}

func startTownOn(t *testing.T, b rabbittest.Broker, adjust func(*Config)) *town {
	t.Helper()
	town := &town{shop: topicExchange(t, b), orders: b.Queue(t, nil), victim: b.Queue(t, nil)}
	town.rig = start(t, b, func(c *Config) {
		if adjust != nil {
			adjust(c)
		}
		login := b.Login(t, rabbittest.DocumentedRights(t, c.Topology.Prefix, town.shop, town.orders), "monitoring")
		c.URL = login.URL
		c.ManagementURL, c.Default = login.ManagementURL, attemptsAfter(50*time.Millisecond, 50*time.Millisecond)
		c.Breaker = retry.Breaker{Messages: -1} // that all messages fail is no outage
		c.Routes = []Route{{
			Queue: town.orders, Bind: []Binding{{town.shop, "#"}}, Handler: handler(func(*message.Message) error {
				town.mu.Lock()
				defer town.mu.Unlock()
				town.calls++
				return errBroken
			}),
		}}
	})
	return town
}

// publisher may write to the exchange shop alone.
func (o *town) publisher() *amqp.Channel {
	return o.broker.Login(o.t, rabbittest.Rights{Write: "^" + o.shop + "$"}).Channel(o.t)
}

// wantUnharmed: each of n messages was tried as the policy says and given up, as one
// that came from the shop, and nothing else happened.
func (o *town) wantUnharmed(n int) {
	o.t.Helper()
	for _, e := range o.waitFor(n, schemas.Poisoned) {
		if e.Attempt != townAttempts || e.Envelope.Exchange != o.shop || e.Envelope.RoutingKey != "k" ||
			e.Envelope.Properties.UserID != "" || len(e.Attempts) != townAttempts {
			o.t.Errorf("%s was given up as %+v of exchange %q, key %q, user %q",
				e.Envelope.Body, e.State, e.Envelope.Exchange, e.Envelope.RoutingKey, e.Envelope.Properties.UserID)
		}
	}
	o.quiet()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls != n*townAttempts {
		o.t.Errorf("%d calls of the handler for %d messages", o.calls, n)
	}
	if all := len(o.all(func(event) bool { return true })); all != n*townAttempts {
		o.t.Errorf("%d events for %d messages:\n%s", all, n, o.eventText())
	}
	if o.broker.Len(o.t, o.victim) > 0 {
		o.t.Errorf("a message reached the queue of others: %+v", o.broker.Take(o.t, o.victim, 1)[0])
	}
}

// forged returns headers that only Watership may set: a state for a queue, with an
// origin at which the message has the fingerprint.
func forged(e schemas.Envelope, s schemas.State) amqp.Table {
	s.Fingerprint = e.Fingerprint()
	return wire.DefaultFrameMax.WrapForQueue(e, s, "").Headers
}

// TestForgedStatesDoNotCount: with the right to publish to a tapped exchange, and with
// the fingerprint, which anybody can compute.
func TestForgedStatesDoNotCount(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		o := startTown(t, b, nil)
		here := schemas.Envelope{Exchange: o.shop, RoutingKey: "k", Properties: schemas.Properties{UserID: "guest"}}
		elsewhere := schemas.Envelope{RoutingKey: o.victim, Properties: schemas.Properties{UserID: "guest"}}
		attacks := map[string]amqp.Table{
			"another origin":       forged(elsewhere, schemas.State{Queue: o.orders, Attempt: 1}),
			"no attempts":          forged(here, schemas.State{Queue: o.orders, Attempt: -1000000}),
			"all attempts":         forged(here, schemas.State{Queue: o.orders, Attempt: 60}),
			"another queue":        forged(here, schemas.State{Queue: o.victim, Attempt: 1}),
			"a queue of ours":      forged(here, schemas.State{Queue: o.topology.Poison(), Attempt: 1}),
			"a newer version":      {"watership-v": int64(99), "watership-queue": o.orders},
			"a mark without a job": {"watership-v": int64(1), "watership-replay-of": "x", "watership-fingerprint": here.Fingerprint(), "watership-user-id": "guest"},
		}
		publisher := o.publisher()
		for name, headers := range attacks {
			headers = maps.Clone(headers)
			if err := publisher.Publish(o.shop, "k", false, false, amqp.Publishing{Headers: headers}); err != nil {
				t.Fatal(name, err)
			}
		}
		o.wantUnharmed(len(attacks))
	})
}

// TestForgedStatesOfForeignQueues: a service that rejects the messages of its own queue
// gets each as often as the policy says, also with a forged state.
func TestForgedStatesOfForeignQueues(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		o := startTown(t, b, nil)
		queue := o.broker.Queue(t, amqp.Table{"x-dead-letter-exchange": o.topology.Retry()})
		here := schemas.Envelope{RoutingKey: queue}
		for _, state := range []schemas.State{{Queue: queue, Attempt: -1000000}, {Queue: queue, Attempt: 60}} {
			o.publish("", queue, amqp.Publishing{Headers: forged(here, state)})
			o.publish("", queue, amqp.Publishing{Headers: forged(schemas.Envelope{RoutingKey: o.victim}, state)})
		}
		rejectOne(t, o.broker, queue)
		scheduled := o.wait(schemas.RetryScheduled)
		if scheduled.Attempt != 1 || scheduled.Envelope.RoutingKey != queue {
			t.Errorf("%+v of key %q", scheduled.State, scheduled.Envelope.RoutingKey)
		}
	})
}

// TestOnlyDeadLettersReachTheRetryHandler: a service that may name our dead-letter
// exchange has the right to write to it.
func TestOnlyDeadLettersReachTheRetryHandler(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		o := startTown(t, b, nil)
		own := rabbittest.Name(t)
		may := "^(" + own + "|" + o.topology.Retry() + ")$"
		service := o.broker.Login(t, rabbittest.Rights{Configure: "^" + own + "$", Write: may, Read: "^" + own + "$"})
		death := []any{amqp.Table{
			"queue": o.orders, "reason": "rejected", "exchange": o.topology.Direct(), "routing-keys": []any{o.orders}, "count": int64(1),
		}}
		letter := amqp.Publishing{Headers: forged(schemas.Envelope{RoutingKey: o.victim}, schemas.State{Queue: o.orders, Attempt: 1})}
		letter.Headers["x-death"] = death

		ch := service.Channel(t)
		refused := ch.NotifyClose(make(chan *amqp.Error, 1))
		if err := ch.Publish(o.topology.Retry(), "k", false, false, letter); err != nil {
			t.Fatal(err)
		}
		if err := rabbittest.Receive(t, refused); err == nil || err.Code != amqp.AccessRefused {
			t.Errorf("it may publish to the exchange of dead letters: %v", err)
		}

		ch = service.Channel(t)
		if err := ch.ExchangeDeclare(own, "fanout", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		b.DeleteExchange(t, own)
		if err := ch.ExchangeBind(o.topology.Retry(), "", own, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.Publish(own, "k", false, false, letter); err != nil {
			t.Fatal(err)
		}
		o.wantGivenUpUntried(1)
	})
}

// wantGivenUpUntried: each of n messages was given up without a queue to go back to.
func (o *town) wantGivenUpUntried(n int) {
	o.t.Helper()
	for _, e := range o.waitFor(n, schemas.Poisoned) {
		if e.Queue != "" || e.Envelope.RoutingKey == o.victim {
			o.t.Errorf("%+v, key %q", e.State, e.Envelope.RoutingKey)
		}
	}
	o.quiet()
	for _, queue := range []string{o.victim, o.orders} {
		if o.broker.Len(o.t, queue) > 0 {
			o.t.Errorf("a message reached %s: %+v", queue, o.broker.Take(o.t, queue, 1)[0])
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if all := len(o.all(func(event) bool { return true })); o.calls > 0 || all != n {
		o.t.Errorf("%d calls of the handler, and %d events:\n%s", o.calls, all, o.eventText())
	}
}

// TestDeathsInQueuesWithAnotherDeadLetterExchange: where the exchange of dead letters is a former
// release's, anybody may publish to it who may name it.
func TestDeathsInQueuesWithAnotherDeadLetterExchange(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		b = b.VHost(t)
		o := startTownOn(t, b, openRetry(t, b))
		service := o.broker.Login(t, rabbittest.Rights{Write: "^" + o.topology.Retry() + "$"}).Channel(t)
		queues := []string{o.victim, o.orders, o.topology.Log(), o.topology.Index(), o.topology.Poison()}
		for _, queue := range queues {
			err := service.Publish(o.topology.Retry(), "k", false, false, amqp.Publishing{Headers: amqp.Table{"x-death": []any{amqp.Table{
				"queue": queue, "reason": "rejected", "exchange": "", "routing-keys": []any{o.victim}, "count": int64(1),
			}}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		o.wantGivenUpUntried(len(queues))
	})
}

// TestOwnQueuesByAnotherExchange: who may write to the default exchange reaches every queue,
// and has no state there, nor a death.
func TestOwnQueuesByAnotherExchange(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		o := startTown(t, b, nil)
		e := schemas.Envelope{RoutingKey: o.victim, Body: []byte("x")}
		state := schemas.State{Fingerprint: e.Fingerprint(), EventID: "forged"}.Failed(time.Now(), 0, o.victim, schemas.Failure{Message: "forged"})
		forgery := wire.DefaultFrameMax.Wrap(e, state)
		died := wire.DefaultFrameMax.Wrap(e, state)
		died.Headers["x-death"] = []any{amqp.Table{
			"queue": wire.DelaysOf(o.topology).Queue(50 * time.Millisecond), "reason": "expired", "exchange": o.topology.Direct(),
			"routing-keys": []any{"k"}, "count": int64(1),
		}}
		writer := o.broker.Login(t, rabbittest.Rights{Write: `^amq\.default$`}).Channel(t)
		for queue, p := range map[string]amqp.Publishing{
			o.topology.Poison(): forgery, o.topology.Due(): died, wire.DelaysOf(o.topology).Queue(50 * time.Millisecond): forgery, o.topology.Retry(): died,
		} {
			if err := writer.Publish("", queue, false, false, p); err != nil {
				t.Fatal(err)
			}
		}
		o.wantGivenUpUntried(4)
		for _, e := range o.all(func(event) bool { return true }) {
			if e.EventID == "forged" || e.Envelope.Exchange != "" && e.Envelope.Exchange != o.topology.Direct() {
				t.Errorf("%+v of exchange %q", e.State, e.Envelope.Exchange)
			}
		}
	})
}

// TestForgedDeathsInDelayQueues: RabbitMQ 3.x counts a death in the entry of x-death that a
// publisher wrote for a delay queue. Such a state is not told from Watership's there without
// keys if the entry begins at 0, but it leads to no queue of Watership and to no user.
func TestForgedDeathsInDelayQueues(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		o := startTown(t, b, nil)
		wait := wire.DelaysOf(o.topology).Queue(50 * time.Millisecond)
		writer := o.broker.Login(t, rabbittest.Rights{Write: `^amq\.default$`}).Channel(t)
		send := func(queue string, attempt int, died int64) {
			e := schemas.Envelope{Exchange: o.shop, RoutingKey: "k", Properties: schemas.Properties{UserID: "guest"}}
			state := schemas.State{Fingerprint: e.Fingerprint(), Queue: queue, Time: time.Unix(1, 0), Failure: schemas.Failure{Message: "forged"}}
			p := wire.DefaultFrameMax.Wrap(e, state)
			p.Headers["watership-attempt"] = int64(attempt)
			p.Headers["x-death"] = []any{amqp.Table{
				"queue": wait, "reason": "expired", "exchange": o.topology.Direct(), "routing-keys": []any{wait}, "count": died,
			}}
			if err := writer.Publish("", wait, false, false, p); err != nil {
				t.Fatal(err)
			}
		}
		send(o.victim, 1, 1)
		for _, died := range []int64{0, 1} {
			send(o.topology.Log(), 1, died)
			send(o.victim, -1000, died)
		}
		o.wantGivenUpUntried(5)
		if !strings.HasPrefix(b.Version, "3.") {
			return
		}
		send(o.orders, 1, 0)
		if e := o.wait(schemas.RetryScheduled); e.Attempt != 2 || e.Envelope.Properties.UserID != "" {
			t.Errorf("it has attempt %d and user %q", e.Attempt, e.Envelope.Properties.UserID)
		}
	})
}

// TestNoAttemptBeyondThePolicy: however a message comes back whose attempts are used
// up, its handler does not see it again.
func TestNoAttemptBeyondThePolicy(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		o := startTown(t, b, nil)
		e := schemas.Envelope{Exchange: o.shop, RoutingKey: "k"}
		for _, attempts := range []int{townAttempts, 60} {
			state := schemas.State{Fingerprint: e.Fingerprint(), Queue: o.orders, Attempt: attempts, Failure: schemas.Failure{Message: "broken"}}
			o.publish(o.topology.Direct(), o.orders, wire.DefaultFrameMax.WrapForQueue(e, state, ""))
		}
		for _, e := range o.waitFor(2, schemas.Poisoned) {
			if e.Attempt < townAttempts || e.Queue != o.orders {
				t.Errorf("%+v", e.State)
			}
		}
		o.quiet()
		if o.calls > 0 {
			t.Errorf("the handler was called %d times", o.calls)
		}
	})
}

// deepArray is an array of names and of an element that no client reads, which keeps
// RabbitMQ from nothing.
func deepArray(names ...string) []any {
	deep := []any{}
	for range 40 {
		deep = []any{deep}
	}
	array := []any{deep}
	for _, name := range names {
		array = append(array, name)
	}
	return array
}

// TestCCReachesNoOtherQueue: CC and BCC of a publisher route its own message, and none
// that Watership publishes.
func TestCCReachesNoOtherQueue(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		exchange, victim, route := topicExchange(t, b), b.Queue(t, nil), rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{
				Queue: route, Bind: []Binding{{exchange, "#"}}, Policy: attemptsAfter(50*time.Millisecond, 50*time.Millisecond),
				Handler: handler(func(*message.Message) error { return errBroken }), Park: true,
			}}
		})
		attacks := map[string]amqp.Table{
			"readable":   {"CC": []any{victim, route}},
			"unreadable": {"CC": deepArray(victim, route)},
			"of ours":    {"watership-cc": []any{victim, route}, "watership-v": int64(1), "watership-queue": route},
			"set aside":  {"unreadable-headers": []byte("\x02CCA\x00\x00\x00\x0d" + "S\x00\x00\x00\x08" + "abcdefgh")},
		}
		for name, headers := range attacks {
			r.publish(exchange, "k", amqp.Publishing{Headers: headers, Body: []byte(name)})
		}
		for _, e := range r.waitFor(len(attacks), schemas.Poisoned) {
			if e.Attempt != 3 {
				t.Errorf("%s was given up after %d attempts", e.Envelope.Body, e.Attempt)
			}
		}
		r.quiet()
		if n := b.Len(t, victim); n > 0 {
			d := b.Take(t, victim, 1)[0]
			t.Errorf("%d messages reached a queue of others, the first by exchange %q: %s", n, d.Exchange, d.Body)
		}
		if n := len(r.all(func(event) bool { return true })); n != 3*len(attacks) {
			t.Errorf("%d events instead of %d:\n%s", n, 3*len(attacks), r.eventText())
		}
	})
}

// TestForgedDeathsInOnesOwnQueue: RabbitMQ 3.x counts a death in the entry of x-death
// that a publisher wrote for the queue, and leaves the rest of it as it is. There it
// takes keys to tell a state from a forged one.
func TestForgedDeathsInOnesOwnQueue(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		keys, err := schemas.ParseStateKeys([]byte(strings.Repeat("k", 64)))
		if err != nil {
			t.Fatal(err)
		}
		o := startTown(t, b, func(c *Config) {
			if strings.HasPrefix(b.Version, "3.") {
				c.StateKeys = keys
			}
		})
		own := o.broker.Queue(t, amqp.Table{"x-dead-letter-exchange": o.topology.Retry()})
		exchange := topicExchange(t, o.broker)
		if err := o.broker.Channel(t).QueueBind(own, "#", exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		publisher := o.broker.Login(t, rabbittest.Rights{Write: "^" + exchange + "$"}).Channel(t)
		attacks := map[string][]any{
			"by our exchange":      {deathIn(own, o.topology.Return(), o.victim)},
			"by the default one":   {deathIn(own, "", o.victim)},
			"after an older death": {deathIn("elsewhere", "", o.victim)},
		}
		for name, deaths := range attacks {
			forgery := forged(schemas.Envelope{RoutingKey: o.victim, Body: []byte(name)}, schemas.State{Queue: own, Attempt: 2})
			forgery["x-death"] = deaths
			if err := publisher.Publish(exchange, "k", false, false, amqp.Publishing{Headers: forgery, Body: []byte(name)}); err != nil {
				t.Fatal(err)
			}
		}
		rabbittest.Eventually(t, "they are there", func() bool { return o.broker.Len(t, own) == len(attacks) })
		service := o.broker.Channel(t)
		for range attacks {
			d, _, err := service.Get(own, false)
			if err != nil || d.Reject(false) != nil {
				t.Fatal(err)
			}
		}
		for _, e := range o.waitFor(len(attacks), schemas.RetryScheduled)[:len(attacks)] {
			if e.Attempt != 1 || e.Envelope.RoutingKey == o.victim || e.Queue != own || o.topology.Owns(e.Envelope.Exchange) {
				t.Errorf("%s: %+v of exchange %q, key %q", e.Envelope.Body, e.State, e.Envelope.Exchange, e.Envelope.RoutingKey)
			}
		}
	})
}

func deathIn(queue, exchange, key string) amqp.Table {
	return amqp.Table{
		"queue": queue, "reason": "rejected", "exchange": exchange, "routing-keys": []any{key}, "count": int64(1), "time": time.Now(),
	}
}
