package pipeline

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// service is an HTTP service that can be stopped: then its address refuses connections.
type service struct {
	t       testing.TB
	address string
	handler http.HandlerFunc
	server  *http.Server
}

// newService is stopped.
func newService(t testing.TB, handler http.HandlerFunc) *service {
	return &service{t: t, address: rabbittest.FreeAddress(t), handler: handler}
}

func (s *service) start() {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.server = &http.Server{Handler: s.handler}
	go func() { _ = s.server.Serve(listener) }()
	s.t.Cleanup(s.stop)
}

func (s *service) stop() { _ = s.server.Close() }

func (s *service) url() string { return "http://" + s.address + "/orders" }

// answerOf returns the status at the start of a body, 204 if there is none.
func answerOf(body string) int {
	status := http.StatusNoContent
	_, _ = fmt.Sscanf(body, "%d ", &status)
	return status
}

// posting is a service that answers by the body of its requests.
func posting(t testing.TB) *service {
	return newService(t, func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 64)
		n, _ := r.Body.Read(body)
		w.WriteHeader(answerOf(string(body[:n])))
	})
}

func bodies(of string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s %d", of, i)
	}
	return list
}

// A service refuses connections, its requests run into their time-out, or it
// answers 503 behind a proxy, while two hundred messages wait. None is given up and
// none loses an attempt, although the outage takes longer than all attempts.
func TestOutageLosesNoAttempt(t *testing.T) {
	t.Parallel() // most of it is waiting
	const messages = 200
	timeout := map[string]time.Duration{"time-out": 3 * time.Second}
	for name, outage := range map[string]http.HandlerFunc{
		"refused":  nil,
		"503":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"500":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"reset":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"time-out": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rabbittest.EachKind(t, func(t *testing.T, b rabbittest.Broker) {
				var over atomic.Bool
				service := newService(t, func(w http.ResponseWriter, r *http.Request) {
					if over.Load() {
						w.WriteHeader(http.StatusNoContent)
						return
					}
					outage(w, r)
				})
				if outage != nil {
					service.start()
				}
				queue := b.Queue(t, nil)
				for _, body := range bodies("good", messages) {
					publishTo(t, b, queue, body)
				}
				r := start(t, b, func(c *Config) {
					c.Breaker = retry.Breaker{First: 20 * time.Millisecond, Cap: 200 * time.Millisecond}
					c.Routes = []Route{{
						Queue: queue, Concurrency: 8, Policy: attemptsAfter(20*time.Millisecond, 20*time.Millisecond),
						Handler: webhook.New(webhook.Config{URL: service.url(), Timeout: timeout[name]}),
					}}
				})
				r.waitFor(20, schemas.RetryScheduled) // many more than its attempts of each message that is tried
				over.Store(true)
				if outage == nil {
					service.start()
				}
				for _, e := range r.waitFor(messages, schemas.Handled) {
					if e.Attempt != 1 {
						t.Errorf("handled at attempt %d: %s", e.Attempt, e.Envelope.Body)
					}
				}
				if given := r.all(func(e event) bool { return e.Action == schemas.Poisoned }); len(given) > 0 {
					t.Errorf("%d messages are poison, such as %+v", len(given), given[0].State)
				}
			})
		})
	}
}

// A service refuses connections for 60 s while two hundred messages wait, on a route with
// the default settings: see TestDefaultsInAnOutage.
func TestSoakMinuteOfRefusedConnections(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("long: set WATERSHIP_TEST_SOAK=1")
	}
	const messages = 200
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		service, queue := posting(t), b.Queue(t, nil)
		for _, body := range bodies("good", messages) {
			publishTo(t, b, queue, body)
		}
		r := start(t, b, func(c *Config) {
			defaults := retry.Default()
			c.Breaker = retry.Breaker{}
			c.Routes = []Route{{Queue: queue, Policy: &defaults, Handler: webhook.New(webhook.Config{URL: service.url()})}}
		})
		time.Sleep(time.Minute)
		service.start()
		rabbittest.Eventually(t, "the end of the outage is found", func() bool { return len(r.all(func(e event) bool { return e.Action == schemas.Resumed })) > 0 })
		for _, e := range r.waitFor(messages, schemas.Handled) {
			if e.Attempt != 1 {
				t.Errorf("handled at attempt %d: %s", e.Attempt, e.Envelope.Body)
			}
		}
		if given := r.all(poisoned); len(given) > 0 {
			t.Errorf("%d messages are poison, such as %+v", len(given), given[0].State)
		}
	})
}

// Three messages that the service does not want, in front of twenty that it
// handles, are poison after their attempts. The route does not pause for them.
func TestFewBadMessagesDelayNoOther(t *testing.T) {
	for _, status := range []string{"404", "403", "503", "500"} {
		t.Run(status, func(t *testing.T) {
			b := rabbittest.Newest(t)
			service, queue := posting(t), b.Queue(t, nil)
			service.start()
			for _, body := range append(bodies(status, 3), bodies("good", 20)...) {
				publishTo(t, b, queue, body)
			}
			r := start(t, b, func(c *Config) {
				c.Routes = []Route{{
					Queue: queue, Concurrency: 1, Policy: attemptsAfter(50 * time.Millisecond), Handler: webhook.New(webhook.Config{URL: service.url()}),
				}}
			})
			r.waitFor(20, schemas.Handled)
			if n := len(r.all(func(e event) bool { return e.Action == schemas.RetryScheduled })); n != 3 {
				t.Errorf("%d retries were scheduled before the good messages were handled, want 3", n)
			}
			others := make(chan struct{})
			go func() { // whatever the service answers, others succeed meanwhile
				defer close(others)
				for i := 0; len(r.all(poisoned)) < 3 && i < 200; i++ {
					publishTo(t, b, queue, fmt.Sprint("good ", 100+i))
					time.Sleep(50 * time.Millisecond)
				}
			}()
			for _, e := range r.waitFor(3, schemas.Poisoned) {
				if e.Attempt != 2 || !strings.HasPrefix(string(e.Envelope.Body), status) {
					t.Errorf("%+v", e)
				}
			}
			<-others
			if n := r.log.Count("route paused"); n > 0 {
				t.Errorf("the route paused %d times", n)
			}
		})
	}
}

func poisoned(e event) bool { return e.Action == schemas.Poisoned }

// Messages that the service refuses for ever, whatever it answers, end as poison
// even where nothing else is in the queue.
func TestBadMessagesEndAsPoison(t *testing.T) {
	t.Parallel() // most of it is waiting
	const messages = 20
	for _, status := range []string{"404", "503", "500"} {
		t.Run(status, func(t *testing.T) {
			b := rabbittest.Newest(t)
			service, queue := posting(t), b.Queue(t, nil)
			service.start()
			for _, body := range bodies(status, messages) {
				publishTo(t, b, queue, body)
			}
			r := start(t, b, func(c *Config) {
				c.Breaker = retry.Breaker{First: 10 * time.Millisecond, Cap: 50 * time.Millisecond, MaxWaits: 2, MaxAlike: 2}
				c.Routes = []Route{{
					Queue: queue, Policy: attemptsAfter(50 * time.Millisecond), Handler: webhook.New(webhook.Config{URL: service.url()}),
				}}
			})
			seen := map[string]bool{}
			for _, e := range r.waitFor(messages, schemas.Poisoned) {
				seen[string(e.Envelope.Body)] = true
				if e.Attempt != 2 || e.Waits > 3 {
					t.Errorf("%+v", e.State)
				}
			}
			if len(seen) != messages {
				t.Errorf("%d different messages are poison", len(seen))
			}
		})
	}
}

// A publisher sends ten messages that the service forbids, and then five hundred
// that it handles. These are handled, although only one is handled at a time and
// the breaker opens.
func TestBadMessagesInFrontOfGoodOnes(t *testing.T) {
	t.Parallel() // most of it is waiting
	const good = 500
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		service, queue := posting(t), b.Queue(t, nil)
		service.start()
		for _, body := range append(bodies("403", 10), bodies("good", good)...) {
			publishTo(t, b, queue, body)
		}
		r := start(t, b, func(c *Config) {
			c.Breaker = retry.Breaker{First: 50 * time.Millisecond}
			c.Routes = []Route{{
				Queue: queue, Concurrency: 1, Policy: attemptsAfter(20 * time.Millisecond), Handler: webhook.New(webhook.Config{URL: service.url()}),
			}}
		})
		r.waitFor(good, schemas.Handled)
		if n := r.log.Count("route paused"); n == 0 {
			t.Error("the breaker did not open")
		}
		if n := len(r.all(func(e event) bool { return e.Action == schemas.RetryScheduled })); n > 40 {
			t.Errorf("the bad messages were tried %d times before the good ones were handled", n)
		}
	})
}

// A handler goes on after its time-out, as a probe of a route that has paused:
// other messages are tried, and the route resumes.
func TestProbeThatHangs(t *testing.T) {
	b := rabbittest.Newest(t)
	queue := b.Queue(t, nil)
	release := make(chan struct{})
	var calls, hanging atomic.Int32
	r := start(t, b, func(c *Config) {
		c.StopTimeout = 200 * time.Millisecond
		c.Breaker = retry.Breaker{First: 10 * time.Millisecond}
		c.Routes = []Route{{
			Queue: queue, Concurrency: 1, Timeout: 5 * time.Second, // which the other messages never need
			Handler: handler(func(*message.Message) error {
				switch n := calls.Add(1); {
				case n <= 5:
					return retry.Unavailable(errBroken)
				case n == 6:
					hanging.Add(1)
					<-release
				}
				return nil
			}),
		}}
	})
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	for _, body := range bodies("m", 20) {
		publishTo(t, b, queue, body)
	}
	r.waitFor(19, schemas.Handled)
	if hanging.Load() != 1 || r.log.Count("route resumed") != 1 {
		t.Errorf("%d probes hung, the route resumed %d times", hanging.Load(), r.log.Count("route resumed"))
	}
}

// A route never handles more messages at once than its Concurrency, also after pauses.
func TestConcurrencyHoldsOverPauses(t *testing.T) {
	const messages, concurrency = 300, 6
	b := rabbittest.Newest(t)
	queue := b.Queue(t, nil)
	for _, body := range bodies("m", messages) {
		publishTo(t, b, queue, body)
	}
	var calls, now, most atomic.Int32
	r := start(t, b, func(c *Config) {
		c.Breaker = retry.Breaker{Messages: 2, First: time.Millisecond, Cap: 2 * time.Millisecond}
		c.Routes = []Route{{
			Queue: queue, Concurrency: concurrency,
			Handler: handler(func(*message.Message) error {
				for n := now.Add(1); ; {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				defer now.Add(-1)
				switch n := calls.Add(1); {
				case n%10 == 0:
					time.Sleep(50 * time.Millisecond)
				case n%10 < 6 && n < 200:
					return retry.Unavailable(errBroken)
				}
				return nil
			}),
		}}
	})
	r.waitFor(messages, schemas.Handled)
	if n := r.log.Count("route paused"); n < 3 {
		t.Errorf("the route paused %d times", n)
	}
	if n := most.Load(); n > concurrency {
		t.Errorf("%d messages were handled at once, want %d at most", n, concurrency)
	}
}

// A message whose service is never available does not wait for ever: beyond its
// bound each failure is an attempt.
func TestWaitingHasABound(t *testing.T) {
	t.Parallel() // most of it is waiting
	for name, breaker := range map[string]retry.Breaker{
		"count": {MaxWaits: 2},
		"time":  {MaxWait: time.Millisecond},
		"none":  {MaxWaits: -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := rabbittest.Newest(t)
			queue := b.Queue(t, nil)
			publishTo(t, b, queue, "m")
			r := start(t, b, func(c *Config) {
				c.Routes = []Route{{
					Queue: queue, Policy: attemptsAfter(10 * time.Millisecond), Breaker: &breaker,
					Handler: handler(func(*message.Message) error { return retry.Unavailable(errBroken) }),
				}}
			})
			e := r.wait(schemas.Poisoned)
			if want := map[string]int{"count": 2, "time": 1, "none": 0}[name]; e.Attempt != 2 || e.Waits != want {
				t.Errorf("%+v, want %d waits", e.State, want)
			}
		})
	}
}
