package pipeline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/internal/admission"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

func keyHeader(e schemas.Envelope) string {
	key, _ := e.Headers["key"].(string)
	return key
}

func keyed(key, id string) amqp.Publishing {
	return amqp.Publishing{Headers: amqp.Table{"key": key}, Body: []byte(id), DeliveryMode: amqp.Persistent}
}

// A receiver is down and has many messages in front of those of others. They wait without
// losing an attempt, the others are handled, and the route is never paused.
func TestBrokenKeyDelaysNoOther(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		const broken, others = 20, 60
		var up atomic.Bool
		var calls atomic.Int64
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.Breaker = retry.Breaker{First: 100 * time.Millisecond, Cap: time.Hour} // so that calls are few however long it takes
			c.Routes = []Route{{
				Queue: queue, Concurrency: 8, Fairness: Fairness{Key: keyHeader},
				Handler: handler(func(msg *message.Message) error {
					e, _ := schemas.FromContext(msg.Context())
					if keyHeader(e) != "broken" || up.Load() {
						return nil
					}
					calls.Add(1)
					return retry.Unavailable(errors.New("connection refused"))
				}),
			}}
		})
		for i := range broken {
			r.publish("", queue, keyed("broken", fmt.Sprint("b", i)))
		}
		for i := range others {
			r.publish("", queue, keyed(fmt.Sprint("k", i%10), fmt.Sprint("o", i)))
		}
		for _, e := range r.waitFor(others, schemas.Handled) {
			if keyHeader(e.Envelope) == "broken" || e.Attempt != 1 {
				t.Errorf("%s was handled at attempt %d", e.Envelope.Body, e.Attempt)
			}
		}
		waits := r.waitFor(broken, schemas.RetryScheduled)
		if states := r.pipeline.Routes(); !states[0].Paused.IsZero() {
			t.Errorf("the route is paused: %+v", states)
		}
		if n := calls.Load(); n > broken {
			t.Errorf("the broken receiver was called %d times", n)
		}
		told := slices.ContainsFunc(waits, func(e event) bool {
			return e.Attempt+e.Waits == 0 && e.Failure.Message == "connection refused"
		})
		if !told {
			t.Errorf("no event tells why a message waits:\n%s", r.eventText())
		}
		up.Store(true)
		for _, e := range r.waitFor(broken+others, schemas.Handled) {
			if e.Attempt != 1 {
				t.Errorf("%s was handled at attempt %d", e.Envelope.Body, e.Attempt)
			}
		}
		r.quiet()
	})
}

// Messages fail at random. Those of a key are handled in their order, one at a time.
func TestOrderedKeys(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		const messages, keys = 60, 4
		var mu sync.Mutex
		tries, handled, running := map[string]int{}, map[string][]string{}, map[string]int{}
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{
				Queue: queue, Fairness: Fairness{Key: keyHeader, Ordered: true}, Policy: attemptsAfter(100*time.Millisecond, 200*time.Millisecond),
				Handler: handler(func(msg *message.Message) error {
					e, _ := schemas.FromContext(msg.Context())
					key, body := keyHeader(e), string(msg.Payload)
					mu.Lock()
					defer mu.Unlock()
					if running[key]++; running[key] > 1 {
						t.Errorf("%s is handled beside another message of its key", body)
					}
					mu.Unlock()
					time.Sleep(time.Millisecond)
					mu.Lock()
					running[key]--
					if tries[body]++; len(body)%2 == 0 && tries[body] < 2 || strings.HasSuffix(body, "7") && tries[body] < 3 {
						return errors.New("failed")
					}
					handled[key] = append(handled[key], body)
					return nil
				}),
			}}
		})
		want := map[string][]string{}
		for i := range messages {
			key, body := fmt.Sprint("k", i%keys), fmt.Sprint(i)
			want[key] = append(want[key], body)
			r.publish("", queue, keyed(key, body))
		}
		r.waitFor(messages, schemas.Handled)
		for key := range want {
			if !slices.Equal(handled[key], want[key]) {
				t.Errorf("the messages of %s were handled in the order\n%v, want\n%v", key, handled[key], want[key])
			}
		}
		r.quiet()
	})
}

// The connection is lost while some messages of a key are in the process and later ones in
// delay queues. They keep their order, and none is an error in the log.
func TestOrderAfterALostConnection(t *testing.T) {
	t.Parallel() // most of it is waiting
	const messages = 30
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue, proxy, registry := rabbittest.Name(t), b.Proxy(t), prometheus.NewRegistry()
		var mu sync.Mutex
		var handled []string
		lost := make(chan struct{})
		r := start(t, b, func(c *Config) {
			c.URL, c.Registerer = proxy.URL, registry
			c.Routes = []Route{{Queue: queue, Fairness: Fairness{Key: keyHeader, Ordered: true}, Handler: handler(func(msg *message.Message) error {
				<-lost
				mu.Lock()
				defer mu.Unlock()
				if !slices.Contains(handled, string(msg.Payload)) { // the first is handled twice
					handled = append(handled, string(msg.Payload))
				}
				return nil
			})}}
		})
		var want []string
		for i := range messages {
			want = append(want, fmt.Sprint(i))
			r.publish("", queue, keyed("k", want[i]))
		}
		rabbittest.Eventually(t, "some messages wait in delay queues", func() bool {
			return gathered(t, registry)["watership_key_waits_total "+queue+" order"] > 0
		})
		proxy.Cut()
		proxy.Mend()
		close(lost)
		rabbittest.Eventually(t, "all messages are handled", func() bool { return r.distinct(queue, schemas.Handled) == messages })
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(handled, want) {
			t.Errorf("the messages were handled in the order\n%v, want\n%v", handled, want)
		}
		if n := r.log.Count("waiting for a handler"); n > 0 {
			t.Errorf("%d waiting messages are errors in the log", n)
		}
	})
}

// A process is killed, as the broker sees it, and one stops while another waits for its end.
// Messages of each key are in the process and in delay queues then, and keep their order.
func TestOrderOverRestarts(t *testing.T) {
	t.Parallel() // most of it is waiting
	const messages, keys = 120, 3
	rabbittest.EachKind(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		var mu sync.Mutex
		tries, handled := map[string]int{}, map[string][]string{}
		topology := schemas.Topology{Prefix: rabbittest.Name(t)}
		var r *rig
		begin := func() (kill func()) {
			proxy := b.Proxy(t)
			var killed atomic.Bool
			r = startSilent(t, b, func(c *Config) {
				c.URL, c.Topology, c.StopTimeout = proxy.URL, topology, time.Second
				c.Routes = []Route{{
					Queue: queue, Concurrency: 2, Fairness: Fairness{Key: keyHeader, Ordered: true}, Policy: attemptsAfter(100*time.Millisecond, time.Second),
					Handler: handler(func(msg *message.Message) error {
						e, _ := schemas.FromContext(msg.Context())
						key, body := keyHeader(e), string(msg.Payload)
						time.Sleep(20 * time.Millisecond)
						mu.Lock()
						defer mu.Unlock()
						if killed.Load() {
							return errors.New("the process is killed")
						}
						if tries[body]++; tries[body] < 3 && strings.HasSuffix(body, "5") {
							return errors.New("failed")
						}
						if !slices.Contains(handled[key], body) { // a process may be killed before the acknowledgement
							handled[key] = append(handled[key], body)
						}
						return nil
					}),
				}}
			})
			r.topology = topology
			return func() {
				mu.Lock()
				defer mu.Unlock()
				killed.Store(true)
				proxy.Cut()
			}
		}
		kill := begin()
		want := map[string][]string{}
		for i := range messages {
			key, body := fmt.Sprint("k", i%keys), fmt.Sprint(i)
			want[key] = append(want[key], body)
			r.publish("", queue, keyed(key, body))
		}
		count := func() (n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, bodies := range handled {
				n += len(bodies)
			}
			return n
		}
		rabbittest.Eventually(t, "some messages are handled", func() bool { return count() > messages/4 })
		kill()
		begin()
		rabbittest.Eventually(t, "half of the messages are handled", func() bool { return count() > messages/2 })
		first := r
		begin()
		rabbittest.Eventually(t, "the other process waits", func() bool { return r.log.Count("waiting for its end") == 1 })
		if err := first.stop(); err != nil {
			t.Error(err)
		}
		rabbittest.Eventually(t, "all messages are handled", func() bool { return count() == messages })
		mu.Lock()
		defer mu.Unlock()
		for key := range want {
			if !slices.Equal(handled[key], want[key]) {
				t.Errorf("the messages of %s were handled in the order\n%v, want\n%v", key, handled[key], want[key])
			}
		}
		rabbittest.Eventually(t, "no places are left", func() bool { return b.Len(t, topology.Places(queue)) == 0 })
	})
}

// The arguments of a route are those of its queue: messages of a higher priority are handled
// first.
func TestRouteArguments(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		prior, ordered := rabbittest.Name(t), rabbittest.Name(t)
		var mu sync.Mutex
		var bodies []string
		blocked := make(chan struct{})
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{
				{
					Queue: prior, Concurrency: 1, Arguments: map[string]any{"x-max-priority": int32(5), "x-queue-type": "classic"},
					Handler: handler(func(msg *message.Message) error {
						<-blocked
						mu.Lock()
						defer mu.Unlock()
						bodies = append(bodies, string(msg.Payload))
						return nil
					}),
				},
				{Queue: ordered, Fairness: Fairness{Key: keyHeader, Ordered: true}, Handler: handler(func(*message.Message) error { return nil })},
			}
		})
		r.publish("", prior, amqp.Publishing{Body: []byte("first")})
		rabbittest.Eventually(t, "the first message is delivered", func() bool { return b.Len(t, prior) == 0 })
		r.publish("", prior, amqp.Publishing{Body: []byte("low"), Priority: 1})
		r.publish("", prior, amqp.Publishing{Body: []byte("high"), Priority: 5})
		rabbittest.Eventually(t, "both wait", func() bool { return b.Len(t, prior) > 0 })
		close(blocked)
		r.waitFor(3, schemas.Handled)
		if got := bodies[len(bodies)-2:]; !slices.Contains(bodies[:2], "high") {
			t.Errorf("handled %q, at the end %q", bodies, got)
		}
		for queue, args := range map[string]amqp.Table{
			prior:   {"x-max-priority": int32(5), "x-queue-type": "classic"},
			ordered: {"x-queue-type": "quorum", "x-delivery-limit": int32(math.MaxInt32)},
		} {
			if _, err := b.Channel(t).QueueDeclare(queue, true, false, false, false, args); err != nil {
				t.Errorf("queue %s has other arguments: %v", queue, err)
			}
		}
	})
}

func TestFairnessNeedsAKey(t *testing.T) {
	none := handler(func(*message.Message) error { return nil })
	for want, route := range map[string]Route{
		`the route of queue "q": Fairness: expected a Key`:                          {Queue: "q", Handler: none, Fairness: Fairness{Ordered: true}},
		`the route of queue "q" has Fairness or Arguments and no handler: expected`: {Queue: "q", Arguments: map[string]any{"x-max-priority": 5}},
	} {
		_, err := New(Config{Connection: rabbitmq.Connection{URL: "amqp://localhost"}, Roles: []Role{RoleRetry}, Routes: []Route{route}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Processes end several times while a key has many messages, which wait in the process. No
// handler had them, so their deliveries say nothing about them.
func TestDeliveriesOfWaitingMessagesAreNotCounted(t *testing.T) {
	t.Parallel() // most of it is waiting
	const messages, concurrency = 60, 4
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, amqp.Table{"x-queue-type": "quorum"})
		for i := range messages {
			publishTo(t, b, queue, fmt.Sprint("m", i))
		}
		for range defaultMaxDeliveries {
			deliverWithoutOutcome(t, b, queue, messages)
		}
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{
				Queue: queue, Concurrency: concurrency, Fairness: Fairness{Key: func(schemas.Envelope) string { return "busy" }, Concurrency: 1},
				Handler: handler(func(*message.Message) error {
					time.Sleep(10 * time.Millisecond) // so that others wait
					return nil
				}),
			}}
		})
		rabbittest.Eventually(t, "all messages are handled", func() bool { return r.distinct(queue, schemas.Handled) == messages })
		if n := r.distinct(queue, schemas.RetryScheduled); n > concurrency {
			t.Errorf("%d of %d messages were suspected to end the process, want at most %d:\n%s", n, messages, concurrency, r.eventText())
		}
	})
}

// deliverWithoutOutcome takes all messages of a queue, and closes the connection.
func deliverWithoutOutcome(t *testing.T, b rabbittest.Broker, queue string, messages int) {
	t.Helper()
	conn, err := amqp.Dial(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range messages {
		<-deliveries
	}
}

// A message that waits for its key says so in its state: the key counts those that have
// not returned, and without that the next ones would wait longer and longer.
func TestMessageThatWaitsHasAPosition(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		m := newModel(t, 0)
		t.Cleanup(m.goroutines.Close)
		begun, finish := make(chan struct{}), make(chan struct{})
		h := &routeHandler{
			messageFlow: m.flow(), outlet: m.broker,
			route: Route{
				Queue: "own", Policy: attemptsAfter(), Breaker: &retry.Breaker{}, Concurrency: 2, Fairness: Fairness{Key: keyHeader, Concurrency: 1, Ordered: ordered},
				Handler: handler(func(*message.Message) error { close(begun); <-finish; return nil }),
			},
		}
		cfg := h.admissionConfig()
		cfg.Now = time.Now // of the wait in the process
		h.admission = admission.New(cfg, nil)
		arriving := func(body string) *message.Message {
			msg := message.NewMessage("", []byte(body))
			msg.SetContext(schemas.NewContext(t.Context(), schemas.Envelope{RoutingKey: "own", Headers: amqp.Table{"key": "k"}, Body: []byte(body)}))
			h.admission.Arrive(msg)
			return msg
		}
		var handling sync.WaitGroup
		first := arriving("first")
		handling.Go(func() {
			if err := h.handle(first); err != nil {
				t.Error(err)
			}
		})
		<-begun
		if err := h.handle(arriving("second")); err != nil {
			t.Error(err)
		}
		if waiting := m.broker.waiting; len(waiting) != 1 || waiting[0].Headers["watership-position"] == nil {
			t.Errorf("ordered %t: %+v waits", ordered, waiting)
		}
		close(finish)
		handling.Wait()
	}
}
