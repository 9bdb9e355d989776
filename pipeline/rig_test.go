package pipeline

import (
	"context"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// rig is a running pipeline with a topology of its own on a real broker.
type rig struct {
	t        testing.TB
	broker   rabbittest.Broker
	cfg      Config
	topology schemas.Topology
	log      *rabbittest.Log
	admin    *amqp.Channel
	pipeline *Pipeline
	stop     func() error // ends the pipeline and returns what Run did; may be called twice

	mu        sync.Mutex // guards the fields below
	events    []event
	published int
}

// event is a lifecycle event as it went to the log.
type event struct {
	schemas.State
	Action   schemas.Action
	Envelope schemas.Envelope
	Body     int // bytes on the wire
}

// handler makes a route's handler of a function that publishes nothing.
func handler(f func(msg *message.Message) error) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) { return nil, f(msg) }
}

// onPoison makes a hook for events of one for messages that are given up.
func onPoison(hook func(context.Context, schemas.Event) error) func(context.Context, schemas.Event) error {
	return func(ctx context.Context, e schemas.Event) error {
		if e.Action != schemas.Poisoned {
			return nil
		}
		return hook(ctx, e)
	}
}

func attemptsAfter(delays ...time.Duration) *retry.Policy { return &retry.Policy{Delays: delays} }

// start runs a pipeline. Adjust may be nil.
func start(t testing.TB, b rabbittest.Broker, adjust func(*Config)) *rig {
	t.Helper()
	r := startSilent(t, b, adjust)
	r.follow(r.topology.Log(), func(d amqp.Delivery) {
		e, state, err := wire.Unwrap(schemas.FromDelivery(d))
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, event{state, schemas.Action(d.RoutingKey), e, len(d.Body)})
	})
	return r
}

// setting is a broker, and how a test uses it.
type setting struct {
	rabbittest.Broker
	processes int
}

// eachSetting runs a test as systems of users are: with two processes, and under policies for all
// exchanges and queues with messages of mixed priorities. It also runs it with one process on every
// broker if WATERSHIP_TEST_SOAK is set, since most other tests have that.
func eachSetting(t *testing.T, test func(t *testing.T, s setting)) {
	t.Helper()
	if os.Getenv("WATERSHIP_TEST_SOAK") != "" {
		rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) { test(t, setting{b, 1}) })
	}
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) { test(t, setting{b, 2}) })
}

// start runs a pipeline in each process. The rig is of the first one.
func (s setting) start(t testing.TB, adjust func(*Config)) *rig {
	t.Helper()
	r := start(t, s.Broker, adjust)
	first, stop := r.pipeline, r.stop
	for range s.processes - 1 {
		r.run()
	}
	r.pipeline, r.stop = first, stop
	return r
}

// startSilent is start for tests that do not consume events.
func startSilent(t testing.TB, b rabbittest.Broker, adjust func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, broker: b, topology: schemas.Topology{Prefix: rabbittest.Name(t)}, log: &rabbittest.Log{}, admin: b.Channel(t)}
	r.cfg = Config{
		Connection: rabbitmq.Connection{URL: b.URL}, Topology: r.topology, Logger: r.log.Logger(),
		StopTimeout: 10 * time.Second, Default: attemptsAfter(100 * time.Millisecond), Standalone: true,
	}
	if adjust != nil {
		adjust(&r.cfg)
	}
	t.Cleanup(r.deleteTopology)
	r.run()
	return r
}

func (r *rig) run() {
	r.t.Helper()
	p, err := New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var result error
	go func() {
		defer close(ended)
		result = p.Run(ctx)
	}()
	stop := func() error {
		cancel()
		select {
		case <-ended:
			return result
		case <-time.After(rabbittest.Timeout):
			r.t.Errorf("the pipeline does not end; goroutines:\n%s", stacks())
			return nil
		}
	}
	r.pipeline, r.stop = p, stop
	r.t.Cleanup(func() {
		if err := stop(); err != nil {
			r.t.Error(err)
		}
		if r.t.Failed() {
			r.t.Log(r.log.String())
		}
	})
	select {
	case <-p.Running():
	case <-ended:
		r.t.Fatal(result)
	case <-time.After(rabbittest.Timeout):
		r.t.Fatal("the pipeline does not run")
	}
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	return b.String()
}

// follow consumes a queue, such as the log, and calls each for every delivery.
func (r *rig) follow(queue string, each func(amqp.Delivery)) {
	r.t.Helper()
	ch := r.broker.Channel(r.t)
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	var following sync.WaitGroup
	following.Go(func() {
		for d := range deliveries {
			each(d)
		}
	})
	r.t.Cleanup(func() {
		_ = ch.Close()
		following.Wait()
	})
}

// deleteTopology deletes every queue that the pipeline may have made.
func (r *rig) deleteTopology() {
	names := r.topology
	queues := names.Queues()
	for _, d := range append(r.cfg.Delays(), append(retry.StandardDelays(), r.cfg.ReturnPause)...) {
		queues = append(queues, wire.DelaysOf(names).Queue(d))
	}
	for _, route := range r.cfg.Routes {
		queues = append(queues, route.Queue, route.parking())
	}
	for _, queue := range queues {
		_, _ = r.admin.QueueDelete(queue, false, false, false)
	}
	for _, exchange := range names.Exchanges() {
		_ = r.admin.ExchangeDelete(exchange, false, false)
	}
}

// exchange declares a topic exchange that goes with the test.
func (r *rig) exchange() string { return topicExchange(r.t, r.broker) }

func topicExchange(t testing.TB, b rabbittest.Broker) string {
	t.Helper()
	name := rabbittest.Name(t)
	if err := b.Channel(t).ExchangeDeclare(name, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	b.DeleteExchange(t, name)
	return name
}

func (r *rig) publish(exchange, key string, p amqp.Publishing) {
	r.t.Helper()
	if r.broker.Policies && p.Priority == 0 { // priorities from 0 to 9 in turn
		r.mu.Lock()
		p.Priority = uint8(r.published % 10)
		r.published++
		r.mu.Unlock()
	}
	if err := r.admin.Publish(exchange, key, false, false, p); err != nil {
		r.t.Fatal(err)
	}
}

// all are the events so far that match.
func (r *rig) all(match func(event) bool) []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e event) bool { return !match(e) })
}

// wait waits for an event of an action and returns the first.
func (r *rig) wait(action schemas.Action) event {
	r.t.Helper()
	return r.waitFor(1, action)[0]
}

// waitFor waits for so many events of an action.
func (r *rig) waitFor(n int, action schemas.Action) []event {
	r.t.Helper()
	ofAction := func(e event) bool { return e.Action == action }
	for deadline := time.Now().Add(rabbittest.Timeout); ; time.Sleep(5 * time.Millisecond) {
		found := r.all(ofAction)
		if len(found) >= n {
			return found
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%d events %s instead of %d; there are\n%s", len(found), action, n, r.eventText())
		}
	}
}

// eventText returns the events as text for the output of a failed test.
func (r *rig) eventText() string {
	text := ""
	for _, e := range r.all(func(event) bool { return true }) {
		text += string(e.Action) + " " + e.Queue + " " + e.Failure.Message + "\n"
	}
	return text
}

// quiet fails the test if a queue of Watership still has a message.
func (r *rig) quiet() {
	r.t.Helper()
	rabbittest.Eventually(r.t, "our queues are empty", func() bool {
		for _, queue := range []string{r.topology.Retry(), r.topology.Report(), r.topology.Due(), r.topology.Poison()} {
			if r.broker.Len(r.t, queue) > 0 {
				return false
			}
		}
		return true
	})
}
