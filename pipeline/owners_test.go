package pipeline

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// owners are a process with every role and two services, on one topology.
type owners struct {
	*rig
	queues []string // of the two services, of a consumer with a policy, and of one without

	mu     sync.Mutex     // guards hooked
	hooked map[string]int // calls of hooks, by process and queue
}

// Delays by which a test recognises the policy that retried a message.
const (
	defaultDelay = 50 * time.Millisecond
	foreignDelay = 60 * time.Millisecond
)

func serviceDelay(i int) time.Duration { return time.Duration(70+10*i) * time.Millisecond }

func startOwners(t *testing.T, b rabbittest.Broker) *owners {
	o := &owners{hooked: map[string]int{}}
	for range 4 {
		o.queues = append(o.queues, rabbittest.Name(t))
	}
	foreign, known := o.queues[2], o.queues[3]
	o.rig = start(t, b, func(c *Config) {
		c.Default = attemptsAfter(defaultDelay)
		c.Routes = []Route{{Queue: foreign, Policy: attemptsAfter(foreignDelay), Park: true}}
		c.OnEvent = onPoison(o.hook("serve"))
	})
	for i := range 2 {
		o.startService(i)
	}
	for _, queue := range []string{foreign, known} {
		o.rejectAll(queue)
	}
	return o
}

func (o *owners) hook(process string) func(context.Context, schemas.Event) error {
	return func(_ context.Context, e schemas.Event) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.hooked[process+" "+e.Queue]++
		return nil
	}
}

func (o *owners) startService(i int) {
	service := &rig{t: o.t, broker: o.broker, topology: o.topology, log: o.log}
	service.cfg = Config{
		Connection: rabbitmq.Connection{URL: o.broker.URL}, Topology: o.topology, Logger: o.log.Logger(), StopTimeout: 10 * time.Second,
		Default: attemptsAfter(5 * time.Second),
		OnEvent: onPoison(o.hook(fmt.Sprint("service ", i))),
		Routes: []Route{{
			Queue: o.queues[i], Park: true, Policy: attemptsAfter(serviceDelay(i)), Breaker: &retry.Breaker{Messages: -1},
			Handler: handler(func(*message.Message) error { return errBroken }),
		}},
	}
	for _, name := range []string{o.queues[i], schemas.Topology{}.Parking(o.queues[i]), wire.DelaysOf(o.topology).Queue(serviceDelay(i)), wire.DelaysOf(o.topology).Queue(5 * time.Second)} {
		o.broker.DeleteQueue(o.t, name)
	}
	service.run()
}

// rejectAll is a consumer in another language that rejects all its messages.
func (o *owners) rejectAll(queue string) {
	o.broker.DeleteQueue(o.t, schemas.Topology{}.Parking(queue))
	declareFor(o.t, o.broker, queue, amqp.Table{"x-dead-letter-exchange": o.topology.Retry()})
	rejecting(o.t, o.broker, queue)
}

// rejecting rejects the messages of a queue until the test ends.
func rejecting(t testing.TB, b rabbittest.Broker, queue string) {
	t.Helper()
	ch := b.Channel(t)
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for d := range deliveries {
			_ = d.Nack(false, false)
		}
	})
	t.Cleanup(func() {
		_ = ch.Close()
		consumer.Wait()
	})
}

// check compares hooks, parked copies and delays after n messages in each queue.
func (o *owners) check(n int) {
	o.t.Helper()
	o.waitFor(4*n, schemas.Poisoned)
	for i, queue := range o.queues[:3] {
		parked := schemas.Topology{}.Parking(queue)
		rabbittest.Eventually(o.t, fmt.Sprintf("%d copies are parked of queue %d", n, i), func() bool { return o.broker.Len(o.t, parked) == n })
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	want := map[string]int{
		"service 0 " + o.queues[0]: n, "service 1 " + o.queues[1]: n, "serve " + o.queues[2]: n, "serve " + o.queues[3]: n,
	}
	if !maps.Equal(o.hooked, want) {
		o.t.Errorf("hooks: %v; expected %v", o.hooked, want)
	}
	delays := map[string]time.Duration{
		o.queues[0]: serviceDelay(0), o.queues[1]: serviceDelay(1), o.queues[2]: foreignDelay, o.queues[3]: defaultDelay,
	}
	scheduled := o.all(func(e event) bool { return e.Action == schemas.RetryScheduled })
	if len(scheduled) != 4*n {
		o.t.Errorf("%d retries of %d messages", len(scheduled), 4*n)
	}
	for _, e := range scheduled {
		if e.Delay != delays[e.Queue] {
			o.t.Fatalf("a message of queue %d waited for %s instead of %s", slices.Index(o.queues, e.Queue), e.Delay, delays[e.Queue])
		}
	}
}

// Several processes with one topology decide only about their own messages: each hook,
// each parked copy and each policy belongs to the process with the route, and those of
// other consumers to the process with the roles.
func TestProcessesKeepTheirOwn(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		const n = 20
		o := startOwners(t, b)
		for i := range n {
			for _, queue := range o.queues {
				o.publish("", queue, amqp.Publishing{MessageId: fmt.Sprint(i), Body: []byte(queue)})
			}
		}
		o.check(n)
	})
}

// Ten minutes of TestProcessesKeepTheirOwn.
func TestSoakProcessesKeepTheirOwn(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		o := startOwners(t, b)
		n := 0
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			for _, queue := range o.queues {
				o.publish("", queue, amqp.Publishing{MessageId: fmt.Sprint(n), Body: []byte(queue)})
			}
			n++
		}
		o.check(n)
		t.Logf("%d messages in each queue", n)
	})
}

// A message of a route that has waited is moved on by another process, which does not know
// the route. It needs no binding of the return exchange, which is for foreign queues.
func TestDueMessageOfAnotherProcess(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		serve := start(t, b, nil)
		queue := rabbittest.Name(t)
		b.DeleteQueue(t, queue)
		service := &rig{t: t, broker: b, topology: serve.topology, log: serve.log}
		service.cfg = Config{
			Connection: rabbitmq.Connection{URL: b.URL}, Topology: serve.topology, Logger: serve.log.Logger(), Default: attemptsAfter(100 * time.Millisecond),
			Routes: []Route{{Queue: queue, Handler: handler(func(msg *message.Message) error {
				if retry.AttemptFrom(msg.Context()).Number == 1 {
					return errBroken
				}
				return nil
			})}},
		}
		service.run()
		serve.publish("", queue, amqp.Publishing{Body: []byte("a")})
		if e := serve.wait(schemas.Handled); e.Attempt != 2 {
			t.Errorf("handled at attempt %d", e.Attempt)
		}
		if err := serve.admin.ExchangeDelete(serve.topology.Return(), true, false); err != nil {
			t.Errorf("the return exchange has a binding: %v", err)
		}
	})
}

// A pipeline that runs only its routes says when nobody has the roles that move its
// messages on, and when somebody has them again.
func TestMissingRolesAreLogged(t *testing.T) {
	b := rabbittest.Newest(t)
	r := start(t, b, func(c *Config) {
		c.Standalone, c.TopologyEvery = false, 100*time.Millisecond
		c.Roles = []Role{RoleRetry}
	})
	const lost = "no process has a role of Watership"
	rabbittest.Eventually(t, "two roles are missing", func() bool { return r.log.Count(lost) == 2 })
	if text := r.log.String(); !strings.Contains(text, "role=due") || !strings.Contains(text, "role=poison") || strings.Contains(text, "role=retry") {
		t.Error(text)
	}
	other := &rig{t: t, broker: b, topology: r.topology, log: &rabbittest.Log{}, cfg: r.cfg}
	other.cfg.Logger, other.cfg.Standalone = other.log.Logger(), true
	other.run()
	rabbittest.Eventually(t, "both are there again", func() bool { return r.log.Count("a process has the role of Watership again") == 2 })
	if n := other.log.Count(lost); n > 0 {
		t.Errorf("the process with the roles misses %d of them", n)
	}
}

// Digests of a role differ exactly if two processes would treat a message differently.
func TestPoliciesOfARole(t *testing.T) {
	base := func() Config {
		return Config{
			Default: attemptsAfter(time.Second), RetriedDeaths: []string{deathRejected, deathExpired},
			Routes: []Route{{Queue: "a", Handler: handler(nil)}, {Queue: "b", Policy: attemptsAfter(time.Minute)}},
		}
	}
	retries, due := base().withDefaults().policies(role.Retry), base().withDefaults().policies(role.Due)
	if retries == "" || due == "" || base().withDefaults().policies(role.Poison) != "" {
		t.Errorf("%q %q", retries, due)
	}
	for name, change := range map[string]struct {
		of           func(*Config)
		retries, due bool // differ
	}{
		"the order of routes":   {func(c *Config) { slices.Reverse(c.Routes) }, false, false},
		"the order of deaths":   {func(c *Config) { slices.Reverse(c.RetriedDeaths) }, false, false},
		"a handler":             {func(c *Config) { c.Routes[0].Handler = nil }, false, false},
		"the default, named":    {func(c *Config) { c.Routes[0].Policy = attemptsAfter(time.Second) }, false, false},
		"the address":           {func(c *Config) { c.URL = "amqp://other/" }, false, false},
		"the default policy":    {func(c *Config) { c.Default = attemptsAfter(2 * time.Second) }, true, false},
		"the policy of a route": {func(c *Config) { c.Routes[1].Policy = attemptsAfter() }, true, false},
		"a class":               {func(c *Config) { c.Routes[1].Policy.Classes = map[string]retry.Policy{"x": {}} }, true, false},
		"headers":               {func(c *Config) { c.Routes[1].Headers.Limit = "x" }, true, false},
		"a check":               {func(c *Config) { c.Routes[1].CheckDigest = "x" }, true, false},
		"parking":               {func(c *Config) { c.Routes[1].Park = true }, true, false},
		"a route more":          {func(c *Config) { c.Routes = append(c.Routes, Route{Queue: "c", Policy: attemptsAfter()}) }, true, false},
		"deaths":                {func(c *Config) { c.RetriedDeaths = []string{deathRejected} }, true, false},
		"the grace":             {func(c *Config) { c.ReturnGrace = time.Hour }, false, true},
		"the pause":             {func(c *Config) { c.ReturnPause = time.Hour }, false, true},
	} {
		c := base()
		change.of(&c)
		c = c.withDefaults()
		if got := c.policies(role.Retry) != retries; got != change.retries {
			t.Errorf("%s: the policies of retry differ: %t", name, got)
		}
		if got := c.policies(role.Due) != due; got != change.due {
			t.Errorf("%s: the policies of due differ: %t", name, got)
		}
	}
}

// A pipeline without handlers keeps the topology for a process that only indexes.
func TestAPipelineWithoutHandlersEnds(t *testing.T) {
	r := start(t, rabbittest.Newest(t), func(c *Config) { c.Standalone = false })
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

func TestRolesAreChecked(t *testing.T) {
	_, err := New(Config{Connection: rabbitmq.Connection{URL: "amqp://localhost"}, Roles: []Role{"boss"}, Routes: []Route{{Queue: "invoices"}}})
	want := "role \"boss\": expected any of [retry due poison]\n" +
		"the route of queue \"invoices\" has no handler: expected one, or RoleRetry, which retries the dead letters of other consumers"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
