package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// reload replaces the routes of a running pipeline.
func (r *rig) reload(keep func(string) bool, routes ...Route) error {
	next := r.cfg
	next.Routes = routes
	ctx, cancel := context.WithTimeout(r.t.Context(), rabbittest.Timeout)
	defer cancel()
	return r.pipeline.Reload(ctx, next, keep)
}

// calls counts the calls of handlers by message.
type calls struct {
	mu sync.Mutex // guards of
	of map[string]int
}

func (c *calls) handler(release <-chan struct{}) message.HandlerFunc {
	return handler(func(msg *message.Message) error {
		c.mu.Lock()
		c.of[string(msg.Payload)]++
		c.mu.Unlock()
		if release != nil && string(msg.Payload) == "held" {
			<-release
		}
		return nil
	})
}

func (c *calls) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of)
}

// Messages flow while their routes are reloaded many times: each is handled exactly once, and
// a route that is kept goes on, with a message that its handler has during all reloads.
func TestReloadAtLoad(t *testing.T) {
	const messages, reloads = 3000, 15
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		steady, changing := rabbittest.Name(t)+"-steady", rabbittest.Name(t)+"-changing"
		got := map[string]*calls{steady: {of: map[string]int{}}, changing: {of: map[string]int{}}}
		held := make(chan struct{})
		release := sync.OnceFunc(func() { close(held) })
		t.Cleanup(release)
		keep := func(queue string) bool { return queue == steady }
		routes := func(n int) []Route {
			return []Route{
				{Queue: steady, Handler: got[steady].handler(held)},
				{Queue: changing, Handler: got[changing].handler(nil), Concurrency: 4 + n, Policy: attemptsAfter(time.Duration(n+1) * 20 * time.Millisecond)},
			}
		}
		r := startSilent(t, b, func(c *Config) { c.Routes = routes(0) })
		r.publish("", steady, amqp.Publishing{Body: []byte("held")})
		rabbittest.Eventually(t, "the steady route has a message", func() bool { return got[steady].len() == 1 })
		var published sync.WaitGroup
		ch := b.Channel(t)
		published.Go(func() {
			for i := range messages {
				for queue := range got {
					if err := ch.Publish("", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(fmt.Sprint(i))}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
		for n := range reloads {
			if err := r.reload(keep, routes(n+1)...); err != nil {
				t.Fatal(err)
			}
		}
		published.Wait()
		release()
		for queue, c := range got {
			want := messages
			if queue == steady {
				want++
			}
			rabbittest.Eventually(t, "all messages of "+queue+" are handled", func() bool { return c.len() == want })
			for body, times := range c.of {
				if times != 1 {
					t.Errorf("%s: message %s was handled %d times", queue, body, times)
				}
			}
		}
	})
}

// consumers returns the number of consumers of a queue.
func (r *rig) consumers(queue string) int {
	r.t.Helper()
	state, err := r.admin.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return state.Consumers
}

// A handler finishes its message before the next one of its route begins. A removed route
// handles nothing, its messages wait, and a route that is added handles them.
func TestReloadDrains(t *testing.T) {
	b := rabbittest.Embedded(t)
	queue := rabbittest.Name(t)
	first, second := &calls{of: map[string]int{}}, &calls{of: map[string]int{}}
	release := make(chan struct{})
	classic := map[string]any{"x-queue-type": "classic"} // quorum counts a consumer until its last message is settled
	r := start(t, b, func(c *Config) {
		c.Routes = []Route{{Queue: queue, Arguments: classic, Handler: first.handler(release), Concurrency: 1}}
	})
	r.publish("", queue, amqp.Publishing{Body: []byte("held")})
	r.publish("", queue, amqp.Publishing{Body: []byte("b")})
	rabbittest.Eventually(t, "the handler has a message", func() bool { return first.len() == 1 })
	reloaded := make(chan error)
	var ended atomic.Bool
	go func() {
		err := r.reload(nil, Route{Queue: queue, Handler: second.handler(nil)})
		ended.Store(true)
		reloaded <- err
	}()
	rabbittest.Eventually(t, "the route stops consuming", func() bool { return r.consumers(queue) == 0 })
	if ended.Load() || second.len() != 0 {
		t.Error("the reload did not wait for the handler")
	}
	close(release)
	if err := <-reloaded; err != nil {
		t.Fatal(err)
	}
	r.waitFor(2, schemas.Handled)
	if first.len() != 1 || second.len() != 1 || second.of["b"] != 1 {
		t.Errorf("handled %v, then %v", first.of, second.of)
	}
	if err := r.reload(nil); err != nil {
		t.Fatal(err)
	}
	if states := r.pipeline.Routes(); len(states) != 0 {
		t.Errorf("routes %+v", states)
	}
	r.publish("", queue, amqp.Publishing{Body: []byte("c")})
	rabbittest.Eventually(t, "the message waits", func() bool { return b.Len(t, queue) == 1 })
	if err := r.reload(nil, Route{Queue: queue, Handler: second.handler(nil)}); err != nil {
		t.Fatal(err)
	}
	r.waitFor(3, schemas.Handled)
}

// With a configuration that is wrong, or cannot be declared, everything stays.
func TestReloadRefuses(t *testing.T) {
	b := rabbittest.Embedded(t)
	queue := rabbittest.Name(t)
	got := &calls{of: map[string]int{}}
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	r := start(t, b, func(c *Config) { c.Routes = []Route{{Queue: queue, Handler: got.handler(held)}} })
	r.publish("", queue, amqp.Publishing{Body: []byte("held")})
	rabbittest.Eventually(t, "the handler has a message", func() bool { return got.len() == 1 })
	for want, route := range map[string]Route{
		"has two routes": {Queue: queue, Handler: got.handler(nil)},
		"NOT_FOUND":      {Queue: queue + "-other", Handler: got.handler(nil), Bind: []Binding{{Exchange: queue + "-none"}}},
	} {
		err := r.reload(nil, Route{Queue: queue, Handler: got.handler(nil), Concurrency: 1}, route)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; expected %q", err, want)
		}
	}
	if n := r.consumers(queue); n != 1 {
		t.Errorf("%d consumers", n)
	}
	release()
	r.wait(schemas.Handled)
	if got.of["held"] != 1 {
		t.Errorf("handled %v", got.of)
	}
}

// The policy of a queue that another program consumes is replaced, too.
func TestReloadOfPolicies(t *testing.T) {
	b := rabbittest.Embedded(t)
	queue := rabbittest.Name(t)
	r := start(t, b, func(c *Config) { c.Routes = []Route{{Queue: queue, Policy: &retry.Policy{}}} })
	declareFor(t, b, queue, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
	rejecting(t, b, queue)
	r.publish("", queue, amqp.Publishing{Body: []byte("a")})
	if e := r.wait(schemas.Poisoned); e.Attempt != 1 {
		t.Errorf("attempt %d", e.Attempt)
	}
	if err := r.reload(nil, Route{Queue: queue, Policy: attemptsAfter(3*time.Millisecond, 4*time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	r.publish("", queue, amqp.Publishing{Body: []byte("b")})
	if e := r.waitFor(2, schemas.Poisoned)[1]; e.Attempt != 3 {
		t.Errorf("attempt %d", e.Attempt)
	}
	err := r.reload(nil, Route{Queue: queue, Policy: attemptsAfter(-time.Second)})
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a negative delay: %v", err)
	}
}

// A handler that does not finish within the stop timeout keeps its message: the successor does
// not call its own handler with it until the first has returned.
func TestReloadOfAHangingHandler(t *testing.T) {
	b := rabbittest.Embedded(t)
	queue := rabbittest.Name(t)
	got := &calls{of: map[string]int{}}
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	r := start(t, b, func(c *Config) {
		c.StopTimeout = 50 * time.Millisecond
		c.Routes = []Route{{Queue: queue, Handler: got.handler(held)}}
	})
	r.publish("", queue, amqp.Publishing{Body: []byte("held")})
	rabbittest.Eventually(t, "the handler has a message", func() bool { return got.len() == 1 })
	if err := r.reload(nil, Route{Queue: queue, Handler: got.handler(nil)}); err != nil {
		t.Fatal(err)
	}
	if e := r.wait(schemas.RetryScheduled); e.Attempt != 0 || !strings.Contains(e.Failure.Message, "has not returned since an earlier delivery") {
		t.Errorf("%+v", e)
	}
	got.mu.Lock()
	if got.of["held"] != 1 {
		t.Errorf("%d calls at once", got.of["held"])
	}
	got.mu.Unlock()
	release()
	r.wait(schemas.Handled)
}

// The breaker of a route stays open over a reload.
func TestReloadInAnOutage(t *testing.T) {
	b := rabbittest.Embedded(t)
	queue := rabbittest.Name(t)
	var away atomic.Bool
	away.Store(true)
	route := Route{
		Queue: queue, Breaker: &retry.Breaker{Messages: 2, First: time.Hour},
		Handler: handler(func(*message.Message) error {
			if away.Load() {
				return retry.Unavailable(errors.New("the service is away"))
			}
			return nil
		}),
	}
	r := start(t, b, func(c *Config) { c.Routes = []Route{route} })
	for i := range 2 {
		r.publish("", queue, amqp.Publishing{Body: []byte(fmt.Sprint(i))})
	}
	paused := func() time.Time { return r.pipeline.Routes()[0].Paused }
	rabbittest.Eventually(t, "the route is paused", func() bool { return !paused().IsZero() })
	since := paused()
	route.Concurrency = 2
	if err := r.reload(nil, route); err != nil {
		t.Fatal(err)
	}
	if now := paused(); !now.Equal(since) {
		t.Errorf("paused since %s, now %s", since, now)
	}
	away.Store(false)
	route.Breaker = &retry.Breaker{Messages: 3}
	if err := r.reload(nil, route); err != nil {
		t.Fatal(err)
	}
	r.waitFor(2, schemas.Handled) // another breaker is closed
}

// The messages of a key stay in their order over reloads.
func TestReloadKeepsOrder(t *testing.T) {
	const messages, keys, reloads = 300, 5, 5
	b := rabbittest.Embedded(t)
	queue := rabbittest.Name(t)
	var mu sync.Mutex // guards got
	got := map[string][]string{}
	route := Route{
		Queue:    queue,
		Fairness: Fairness{Ordered: true, Key: func(e schemas.Envelope) string { key, _ := e.Headers["key"].(string); return key }},
		Handler: handler(func(msg *message.Message) error {
			mu.Lock()
			defer mu.Unlock()
			key := msg.Metadata.Get("key")
			got[key] = append(got[key], string(msg.Payload))
			return nil
		}),
	}
	r := start(t, b, func(c *Config) { c.Routes = []Route{route} })
	var publishing sync.WaitGroup
	ch := b.Channel(t)
	publishing.Go(func() {
		for i := range messages {
			if err := ch.Publish("", queue, false, false, amqp.Publishing{Headers: amqp.Table{"key": fmt.Sprint(i % keys)}, Body: []byte(fmt.Sprintf("%03d", i))}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := range reloads {
		route.Concurrency = 8 + n
		if err := r.reload(nil, route); err != nil {
			t.Fatal(err)
		}
	}
	publishing.Wait()
	r.waitFor(messages, schemas.Handled)
	mu.Lock()
	defer mu.Unlock()
	for key, list := range got {
		if len(list) != messages/keys || !slices.IsSorted(list) {
			t.Errorf("key %s: %v", key, list)
		}
	}
}

// A process gives many messages of a key back while a handler has the first one, and again when
// it has got a few of them. They come in their order.
func TestReloadGivesBackInOrder(t *testing.T) {
	t.Parallel() // most of it is waiting
	const messages, reloads = 100, 4
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		queue := rabbittest.Name(t)
		free := make(chan struct{})
		var mu sync.Mutex // guards begun
		var begun []string
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(begun)
		}
		route := Route{
			Queue: queue, Concurrency: 1, Fairness: Fairness{Ordered: true, Key: keyHeader},
			Handler: handler(func(msg *message.Message) error {
				mu.Lock()
				begun = append(begun, string(msg.Payload))
				mu.Unlock()
				<-free
				return nil
			}),
		}
		r := start(t, b, func(c *Config) { c.Routes = []Route{route} })
		for i := range messages {
			r.publish("", queue, keyed("k", fmt.Sprintf("%03d", i)))
		}
		ready := func() int {
			state, err := r.admin.QueueDeclarePassive(queue, true, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			return state.Messages
		}
		for n := range reloads {
			rabbittest.Eventually(t, "a handler has a message, and every second time the process has all", func() bool {
				return count() == n+1 && (n%2 > 0 || ready() == 0)
			})
			reloaded := make(chan error)
			go func() { reloaded <- r.reload(nil, route) }()
			rabbittest.Eventually(t, "all messages but that of the handler are given back", func() bool { return ready() == messages-n-1 })
			free <- struct{}{}
			if err := <-reloaded; err != nil {
				t.Fatal(err)
			}
		}
		close(free)
		r.waitFor(messages, schemas.Handled)
		mu.Lock()
		defer mu.Unlock()
		if len(begun) != messages || !slices.IsSorted(begun) {
			t.Errorf("handled %v", begun)
		}
	})
}
