package breaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

var errDown = retry.Unavailable(errors.New("down"))

// As long as a route is paused, its newest `paused` event is at most PausedEvery old, by
// which `routes` and `doctor` know that it still is: also if its queue is empty, the
// pauses between its probes are longer, or a probe takes long.
func TestPausedEventIsRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		breaker  retry.Breaker
		messages int
		takes    time.Duration // a probe
	}{
		"default":     {messages: 10_000},
		"empty queue": {messages: 5},
		"long pauses": {retry.Breaker{First: time.Hour}, 10_000, 0},
		"long probe":  {messages: 10_000, takes: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var handled atomic.Int32
				r := startTestRoute(t, test.breaker, 5, func(string) error {
					if handled.Add(1) > 5 {
						time.Sleep(test.takes)
					}
					return errDown
				})
				r.put(test.messages)
				time.Sleep(3*time.Hour + time.Minute)
				r.mu.Lock()
				defer r.mu.Unlock()
				if n := len(r.paused); n != 19 {
					t.Errorf("%d events in 3 h, want 19", n)
				}
			})
		})
	}
}

// Probes are different messages, one at a time. Once one succeeds, the route handles as
// many at once as fail before it pauses, and as many as before after the same number of
// successes.
func TestRouteRecovers(t *testing.T) {
	const messages, concurrency = 3, 10
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(time.Minute)
		var mu sync.Mutex
		calls := map[string]int{}
		running, succeeded := 0, 0
		most := map[int]int{} // messages that are handled at once, by successes
		r := startTestRoute(t, retry.Breaker{Messages: messages}, concurrency, func(id string) error {
			mu.Lock()
			defer mu.Unlock()
			calls[id]++
			running++
			most[succeeded] = max(most[succeeded], running)
			took := time.Duration(100+len(calls)) * time.Millisecond // no two end together
			mu.Unlock()
			time.Sleep(took)
			mu.Lock()
			running--
			if time.Now().Before(end) {
				return errDown
			}
			succeeded++
			return nil
		})
		r.put(messages)
		time.Sleep(500 * time.Millisecond)
		mu.Lock()
		clear(most)
		mu.Unlock()
		r.put(200)
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for successes, want := range []int{1, messages, messages, messages, concurrency} {
			if got := most[successes]; got != want {
				t.Errorf("after %d successes %d messages were handled at once, want %d", successes, got, want)
			}
		}
		for id, n := range calls {
			if n != 1 {
				t.Errorf("%s was tried %d times", id, n)
			}
		}
		if failed := len(calls) - succeeded; failed < 5*messages || len(calls) != messages+200 {
			t.Errorf("%d of %d messages failed", failed, len(calls))
		}
	})
}

// A route that an operator has paused handles nothing new, and finishes its messages.
func TestHeldRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, ended atomic.Int32
		r := startTestRoute(t, retry.Breaker{}, 3, func(string) error {
			begun.Add(1)
			time.Sleep(10 * time.Second)
			ended.Add(1)
			return nil
		})
		r.put(10)
		time.Sleep(time.Second)
		r.hold(true)
		time.Sleep(time.Hour)
		if b, e := begun.Load(), ended.Load(); b != 3 || e != 3 {
			t.Errorf("%d messages have begun and %d ended, want 3", b, e)
		}
		r.hold(false)
		time.Sleep(time.Minute)
		if e := ended.Load(); e != 10 {
			t.Errorf("%d messages have ended, want 10", e)
		}
	})
}

// The breaker of a route that an operator has paused stays open without probes, and goes on
// with them afterwards.
func TestHeldRouteSendsNoProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		var up atomic.Bool
		r := startTestRoute(t, retry.Breaker{Messages: 3}, 3, func(string) error {
			calls.Add(1)
			if !up.Load() {
				return errDown
			}
			return nil
		})
		r.put(1000)
		time.Sleep(time.Minute)
		r.hold(true)
		time.Sleep(time.Second)
		before := calls.Load()
		if before < 4 {
			t.Fatalf("%d calls: the breaker does not probe", before)
		}
		time.Sleep(time.Hour)
		if n := calls.Load(); n != before {
			t.Errorf("%d calls while an operator has paused the route", n-before)
		}
		r.hold(false)
		time.Sleep(5 * time.Minute)
		during := calls.Load()
		if during == before {
			t.Error("no probes after the route was resumed")
		}
		up.Store(true)
		time.Sleep(time.Hour)
		if n := len(r.queue); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// testRoute is a route whose queue is in memory. A message that fails leaves the queue,
// as with a delay.
type testRoute struct {
	queue chan *message.Message
	next  int

	mu      sync.Mutex
	paused  []time.Time // of `paused` events
	held    bool        // by an operator
	changed chan struct{}
}

// hold pauses or resumes the route as an operator does.
func (r *testRoute) hold(held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = held
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *testRoute) isHeld() (bool, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held, r.changed
}

func startTestRoute(t *testing.T, cfg retry.Breaker, concurrency int, handle func(id string) error) *testRoute {
	r := &testRoute{queue: make(chan *message.Message, 20_000), changed: make(chan struct{})}
	b := New(cfg, time.Now)
	s := NewSubscriber(Route{
		Queue: "orders", Concurrent: r, Single: r, Concurrency: concurrency, StopTimeout: time.Second, Requeue: func(context.Context) {},
		Record: r.record, Paused: prometheus.NewGauge(prometheus.GaugeOpts{}), Held: r.isHeld, Logger: slog.New(slog.DiscardHandler),
	}, b)
	ctx, cancel := context.WithCancel(t.Context())
	messages, err := s.Subscribe(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	var handling sync.WaitGroup
	handling.Go(func() {
		for msg := range messages {
			handling.Go(func() {
				defer s.Settled(msg)
				defer msg.Ack()
				epoch := b.Begin()
				if err := handle(msg.UUID); err != nil {
					b.RecordFailure(epoch, schemas.State{Message: msg.UUID}, Failure{Cause: CauseOf(err)})
					return
				}
				b.RecordSuccess(epoch)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = s.Close()
		handling.Wait()
	})
	return r
}

func (r *testRoute) put(messages int) {
	for range messages {
		r.next++
		r.queue <- message.NewMessage(fmt.Sprint("m", r.next), nil)
	}
}

func (r *testRoute) record(_ context.Context, action schemas.Action, _ time.Time, _ schemas.Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if action == schemas.Paused {
		r.paused = append(r.paused, time.Now())
	}
}

// Subscribe delivers the messages of the queue until ctx ends.
func (r *testRoute) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for {
			select {
			case msg := <-r.queue:
				select {
				case out <- msg:
					continue
				case <-ctx.Done():
					r.queue <- msg
				}
			case <-ctx.Done():
			}
			return
		}
	}()
	return out, nil
}

func (r *testRoute) Close() error { return nil }
