package fairness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

var errDown = retry.Unavailable(errors.New("connection refused"))

// One key of many never has more handlers than its part, and each message of the others gets
// a turn at once.
func TestBusyKeyDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, Config{Concurrency: 8, PerKey: 2, Room: 32}, func(m testMessage) (time.Duration, error) {
			if m.key == "slow" {
				return 5 * time.Second, nil
			}
			return 10 * time.Millisecond, nil
		})
		for i := range 400 {
			key := fmt.Sprint("k", i%10)
			if i%2 == 0 {
				key = "slow"
			}
			r.put(testMessage{key: key, number: i})
		}
		r.run()
		if r.most["slow"] != 2 {
			t.Errorf("%d messages of the slow key were handled at once", r.most["slow"])
		}
		slowest := map[bool]time.Duration{}
		for _, h := range r.handled {
			slowest[h.key == "slow"] = max(slowest[h.key == "slow"], h.after)
		}
		if slowest[false] > time.Second || slowest[true] > 200*5*time.Second/2*3/2 {
			t.Errorf("the last message of the slow key was handled after %s, of others after %s", slowest[true], slowest[false])
		}
		if len(r.handled) != 400 {
			t.Errorf("%d messages were handled", len(r.handled))
		}
	})
}

// Messages of a key with a rate start one after the other, evenly spread, while others are handled at once.
func TestRate(t *testing.T) {
	const rated, interval = 60, 100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(t, Config{Concurrency: 8, PerKey: 4, Room: 32, Interval: interval}, func(testMessage) (time.Duration, error) { return time.Millisecond, nil })
		for i := range rated {
			r.put(testMessage{key: "limited", number: i})
			r.put(testMessage{key: fmt.Sprint("k", i), number: i})
		}
		r.run()
		var starts []time.Duration
		for _, h := range r.handled {
			if h.key == "limited" {
				starts = append(starts, h.after)
			} else if h.after > 3*time.Second {
				t.Errorf("a message of another key was handled after %s", h.after)
			}
		}
		slices.Sort(starts)
		if len(starts) != rated {
			t.Fatalf("%d messages of the limited key were handled", len(starts))
		}
		for i := range starts[1:] {
			if gap := starts[i+1] - starts[i]; gap < interval {
				t.Errorf("two messages started within %s", gap)
			}
		}
		if all := starts[rated-1]; all > 3*rated*interval {
			t.Errorf("all of them took %s", all)
		}
	})
}

// Messages of a key that an operator holds wait until it is released, and delay no others. None is tried before it is
// known whether its key is held.
func TestHeldKey(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		var unheld time.Duration // the slowest message takes without a hold: an ordered key returns from delay queues
		synctest.Test(t, func(t *testing.T) {
			r := newRoute(t, Config{Concurrency: 8, PerKey: 2, Room: 32, Ordered: ordered}, func(testMessage) (time.Duration, error) { return time.Millisecond, nil })
			r.putBoth("held", "free", 100)
			r.run()
			for _, h := range r.handled {
				unheld = max(unheld, h.after)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			start, asked := time.Now(), make(chan struct{}, 1)
			cfg := Config{Concurrency: 8, PerKey: 2, Room: 32, Ordered: ordered, Unknown: func() {
				select {
				case asked <- struct{}{}:
				default:
				}
			}}
			r := newRoute(t, cfg, func(testMessage) (time.Duration, error) { return time.Millisecond, nil })
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go func() {
				next := time.NewTicker(2 * time.Second)
				for all := false; ctx.Err() == nil; {
					for _, name := range r.gate.Unknown(all) {
						r.gate.SetHeld(name, name == "held" && time.Since(start) < 10*time.Minute)
					}
					select {
					case <-next.C:
						all = true
					case <-asked:
						all = false
					case <-ctx.Done():
					}
				}
			}()
			r.putBoth("held", "free", 100)
			r.run()
			if len(r.handled) != 200 {
				t.Fatalf("%d messages were handled", len(r.handled))
			}
			for _, h := range r.handled {
				if h.key == "held" && h.after < 10*time.Minute {
					t.Fatalf("a message of the held key was handled after %s", h.after)
				}
				if limit := 30 * time.Minute; h.key == "held" && h.after > limit || h.key == "free" && h.after > unheld+10*time.Second {
					t.Errorf("ordered %t: a message of the key %s was handled after %s", ordered, h.key, h.after)
				}
			}
		})
	}
}

// A hold reaches messages that wait for a handler.
func TestHoldOfAReadyMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{Concurrency: 1, PerKey: 1}, time.Now)
		busy, held := g.Arrive(Delivery{Key: "busy", ID: "1"}), g.Arrive(Delivery{Key: "held", ID: "2"})
		if _, err := g.Begin(t.Context(), busy, false); err != nil {
			t.Fatal(err)
		}
		waits := make(chan Wait, 1)
		go func() {
			wait, _ := g.Begin(t.Context(), held, false)
			waits <- wait
		}()
		synctest.Wait()
		g.SetHolding(true)
		g.SetHeld("held", true)
		busy.Leave()
		if wait := <-waits; wait.Reason != Held {
			t.Errorf("%+v", wait)
		}
	})
}

// Keys that may not start another message yet are not forgotten.
func TestIntervalsAreNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{Concurrency: 1, PerKey: 1, Interval: time.Minute}, time.Now)
		first := g.Arrive(Delivery{Key: "first", ID: "1"})
		if _, err := g.Begin(t.Context(), first, false); err != nil {
			t.Fatal(err)
		}
		first.Leave()
		g.mu.Lock()
		g.forget()
		g.mu.Unlock()
		if wait, err := g.Begin(t.Context(), g.Arrive(Delivery{Key: "first", ID: "2"}), false); err != nil || wait.Reason != Busy {
			t.Errorf("another message started before the interval was over: %+v, %v", wait, err)
		}
	})
}

// A key that fails is paused: its messages wait and return, and only probes are tried. The
// others are not delayed. Once it works again, its messages are handled soon.
func TestBrokenKeyIsPaused(t *testing.T) {
	for name, failing := range map[string]struct {
		takes time.Duration
		err   error
		tries int // at most, in an hour: those that open the breaker, and probes
	}{
		"down":      {time.Millisecond, errDown, 7 + 7 + 60},
		"times out": {30 * time.Second, context.DeadlineExceeded, 7 + 7 + 60},
		"answers":   {time.Millisecond, errors.New("no such customer"), 7 + 60*100}, // bad messages may be in front of good ones
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				tries, messages := 0, 2000
				if testing.Short() {
					messages = 200
				}
				r := newRoute(t, Config{Concurrency: 16, PerKey: 2, Room: 64}, func(m testMessage) (time.Duration, error) {
					if m.key == "broken" && time.Since(start) < time.Hour {
						tries++
						return failing.takes, failing.err
					}
					return 10 * time.Millisecond, nil
				})
				for i := range messages {
					key := fmt.Sprint("k", i%10)
					if i%10 == 0 {
						key = "broken"
					}
					r.put(testMessage{key: key, number: i})
				}
				r.run()
				if tries > failing.tries {
					t.Errorf("%d messages were tried while the key was broken", tries)
				}
				if !slices.Equal(r.log, []string{"paused broken", "resumed broken"}) {
					t.Errorf("the log is %q", r.log)
				}
				slowest := map[bool]time.Duration{}
				for _, h := range r.handled {
					slowest[h.key == "broken"] = max(slowest[h.key == "broken"], h.after)
				}
				if slowest[false] > 5*time.Second || slowest[true] > time.Hour+10*time.Minute {
					t.Errorf("the last message of the broken key was handled after %s, of others after %s", slowest[true], slowest[false])
				}
				if len(r.handled) != messages {
					t.Errorf("%d messages were handled", len(r.handled))
				}
			})
		})
	}
}

// Whatever fails, whatever returns when, and however often the process is killed: with Ordered
// the messages of a key are handled in the order of their arrival, one at a time.
func TestOrder(t *testing.T) {
	seeds := uint64(10)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			const messages = 200
			random := rand.New(rand.NewPCG(seed, 1))
			r := newRoute(t, Config{Concurrency: 8, Ordered: true, Room: 16}, func(testMessage) (time.Duration, error) {
				took := time.Duration(random.IntN(1000)) * time.Millisecond
				switch random.IntN(6) {
				case 0:
					return took, errors.New("failed")
				case 1:
					return took, errDown
				}
				return took, nil
			})
			for i := range messages {
				r.put(testMessage{key: fmt.Sprint("k", random.IntN(4)), number: i})
			}
			for done, kills := false, int(seed%8); !done; kills-- {
				life, kill := t.Context(), func() {}
				if kills > 0 {
					life, kill = context.WithTimeout(life, time.Duration(random.IntN(60_000))*time.Millisecond)
				}
				done = r.runUntil(life)
				kill()
				r.restart()
			}
			latest := map[string]int{}
			for _, h := range r.handled {
				if h.number < latest[h.key] {
					t.Errorf("seed %d: message %d of %s was handled after %d", seed, h.number, h.key, latest[h.key])
				}
				latest[h.key] = h.number
			}
			if len(r.handled) != messages {
				t.Errorf("seed %d: %d messages were handled", seed, len(r.handled))
			}
			if len(r.places) > 0 {
				t.Errorf("seed %d: the places %v are kept for ever", seed, r.places)
			}
			for key, most := range r.most {
				if most > 1 {
					t.Errorf("seed %d: %d messages of %s were handled at once", seed, most, key)
				}
			}
		})
	}
}

// The connection is lost, and a message returns from a delay queue before an earlier one is
// delivered again. If that never is, the later ones wait for a time.
func TestLostDeliveryIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{Concurrency: 2, Ordered: true, Room: 8}, time.Now)
		first, later := g.Arrive(Delivery{Key: "k", ID: "1"}), g.Arrive(Delivery{Key: "k", ID: "2"})
		later.Settle()
		later.Away(time.Second, func([]Place) {})
		later.Leave()
		first.Leave()
		var order []string
		var handlers sync.WaitGroup
		handle := func(d Delivery) {
			ticket := g.Arrive(d)
			handlers.Go(func() {
				defer ticket.Leave()
				if wait, err := g.Begin(t.Context(), ticket, false); wait.Delay != 0 || err != nil {
					t.Error(wait, err)
				}
				order = append(order, d.ID)
				ticket.Settle()
			})
			synctest.Wait()
		}
		handle(Delivery{Key: "k", ID: "2", Position: later.Position()})
		handle(Delivery{Key: "k", ID: "1", Redelivered: true})
		handlers.Wait()
		if !slices.Equal(order, []string{"1", "2"}) {
			t.Errorf("the messages were handled in the order %v", order)
		}
		g.Arrive(Delivery{Key: "k", ID: "3"}).Leave()
		time.Sleep(lostGrace + time.Second)
		handle(Delivery{Key: "k", ID: "4"})
		handlers.Wait()
	})
}

// The messages of a key that works return from delay queues in time: its handler is idle for
// a small part of the time that they need.
func TestOrderedKeyIsBusy(t *testing.T) {
	for _, messages := range []int{20, 60, 300} {
		synctest.Test(t, func(t *testing.T) {
			r := newRoute(t, Config{Concurrency: 8, Ordered: true, Room: 64}, func(testMessage) (time.Duration, error) { return time.Second, nil })
			for i := range messages {
				r.put(testMessage{key: "k", number: i})
			}
			r.run()
			if last := r.handled[messages-1]; last.after > time.Duration(messages)*time.Second*5/4 {
				t.Errorf("%d messages of a second were handled in %s", messages, last.after)
			}
		})
	}
}

// A message in a delay queue that does not return does not block its key for ever.
func TestLostMessageBlocksItsKeyForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{Concurrency: 2, Ordered: true, Room: 8, Paused: func(_, _ string) {}}, time.Now)
		lost := g.Arrive(Delivery{Key: "k"})
		lost.Away(time.Minute, func([]Place) {})
		lost.Leave()
		next := g.Arrive(Delivery{Key: "k"})
		if wait, err := g.Begin(t.Context(), next, false); wait.Reason != Order || wait.Delay < time.Minute-memoryWait || err != nil {
			t.Errorf("the next one: %v %v", wait, err)
		}
		next.Away(0, func([]Place) {})
		next.Leave()
		time.Sleep(time.Minute + returnGrace + time.Second)
		next = g.Arrive(Delivery{Key: "k", Position: next.Position()})
		if wait, err := g.Begin(t.Context(), next, false); wait.Delay != 0 || err != nil {
			t.Errorf("after the grace: %v %v", wait, err)
		}
	})
}

// The connection is lost while a message is in the process and a later one in a delay queue.
func TestRedeliveredMessageKeepsItsPlace(t *testing.T) {
	g := New(Config{Concurrency: 2, Ordered: true, Room: 8}, time.Now)
	first, second, handled := g.Arrive(Delivery{Key: "k", ID: "1"}), g.Arrive(Delivery{Key: "k", ID: "2"}), g.Arrive(Delivery{Key: "k", ID: "3"})
	handled.Settle()
	later := g.Arrive(Delivery{Key: "k", ID: "4"})
	handled.Leave()
	second.Leave()
	for _, want := range []*Ticket{first, second} { // the handler of the first still runs
		if got := g.Arrive(Delivery{Key: "k", ID: want.id, Redelivered: true}); got.Position() != want.Position() {
			t.Errorf("message %s is at %d, and was at %d", want.id, got.Position(), want.Position())
		}
	}
	for _, d := range []Delivery{{Key: "k", ID: "3", Redelivered: true}, {Key: "k", ID: "2"}} {
		if got := g.Arrive(d); got.Position() <= later.Position() {
			t.Errorf("the new message %+v has an old place", d)
		}
	}
}

// Close ends the waits, and those of messages that arrive later.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{Concurrency: 1, PerKey: 1, Room: 16}, time.Now)
		first := g.Arrive(Delivery{Key: "k"})
		if wait, err := g.Begin(t.Context(), first, false); wait.Delay != 0 || err != nil {
			t.Fatal(wait, err)
		}
		var waiting sync.WaitGroup
		for _, key := range []string{"k", "l", ""} {
			ticket := g.Arrive(Delivery{Key: key})
			waiting.Go(func() {
				defer ticket.Leave()
				if _, err := g.Begin(t.Context(), ticket, false); !errors.Is(err, ErrClosed) {
					t.Errorf("key %q: %v", key, err)
				}
			})
		}
		synctest.Wait()
		g.Close()
		waiting.Wait()
		if _, err := g.Begin(t.Context(), g.Arrive(Delivery{Key: "m"}), false); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		first.Leave()
		if g.running != 0 || g.present != 1 || len(g.ready) != 0 {
			t.Errorf("running %d, present %d, ready %d", g.running, g.present, len(g.ready))
		}
	})
}

// A message whose delivery ends while it waits occupies nothing.
func TestEndOfADelivery(t *testing.T) {
	g := New(Config{Concurrency: 1, PerKey: 1, Room: 16}, time.Now)
	first := g.Arrive(Delivery{Key: "k"})
	_, _ = g.Begin(t.Context(), first, false)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, key := range []string{"k", "l"} {
		ticket := g.Arrive(Delivery{Key: key})
		if _, err := g.Begin(ended, ticket, false); !errors.Is(err, context.Canceled) {
			t.Errorf("key %s: %v", key, err)
		}
		ticket.Leave()
	}
	first.Leave()
	last := g.Arrive(Delivery{Key: "k"})
	if wait, err := g.Begin(t.Context(), last, false); wait.Delay != 0 || err != nil {
		t.Error(wait, err)
	}
}

// Publishers choose keys: the number of those that are remembered is bounded.
func TestKeysAreForgotten(t *testing.T) {
	g := New(Config{Concurrency: 4, PerKey: 1, Room: 16, Breaker: retry.Breaker{Messages: 1}, Paused: func(_, _ string) {}, Resumed: func(string, time.Duration) {}}, time.Now)
	for i := range 3 * maxKeys {
		ticket := g.Arrive(Delivery{Key: fmt.Sprint(i)})
		if wait, err := g.Begin(t.Context(), ticket, false); wait.Delay != 0 || err != nil {
			t.Fatal(wait, err)
		}
		if i%2 == 0 {
			ticket.Failed(schemas.State{Message: "m"}, breaker.Failure{Cause: breaker.Unavailable})
		}
		ticket.Leave()
		if len(g.keys) > maxKeys {
			t.Fatalf("%d keys", len(g.keys))
		}
	}
	if last := g.keys[fmt.Sprint(3*maxKeys-2)]; last == nil || !last.paused {
		t.Error("the newest key is forgotten")
	}
}

// Another process got the messages that wait: their keys are forgotten as well.
func TestKeysOfLostMessagesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config{Concurrency: 4, Ordered: true, Room: 16}, time.Now)
		for i := range 3 * maxKeys {
			if i%maxKeys == 0 {
				time.Sleep(returnGrace + time.Minute)
			}
			ticket := g.Arrive(Delivery{Key: fmt.Sprint(i)})
			ticket.Away(time.Second, func([]Place) {})
			ticket.Settle()
			ticket.Leave()
			if len(g.keys) > maxKeys {
				t.Fatalf("%d keys", len(g.keys))
			}
		}
	})
}

// testRoute is a route whose queue and delay queues are in memory.
type testRoute struct {
	t      *testing.T
	gate   *Gate
	cfg    Config
	handle func(testMessage) (time.Duration, error) // how long it takes, and its result; called with mu
	queue  []testMessage
	start  time.Time

	mu      sync.Mutex // guards the fields below
	waiting []testMessage
	present int
	now     map[string]int
	most    map[string]int // of one key at once
	log     []string
	handled []testMessage

	placesMu sync.Mutex // guards places; it may be locked with the lock of the gate
	places   map[int64]Place
}

type testMessage struct {
	key      string
	number   int
	position int64

	again bool // it is redelivered

	state schemas.State
	due   time.Time
	after time.Duration // since the start
}

func newRoute(t *testing.T, cfg Config, handle func(testMessage) (time.Duration, error)) *testRoute {
	r := &testRoute{t: t, cfg: cfg, handle: handle, now: map[string]int{}, most: map[string]int{}, places: map[int64]Place{}, start: time.Now()}
	cfg.Paused = func(key, _ string) { r.log = append(r.log, "paused "+key) }
	cfg.Resumed = func(key string, _ time.Duration) { r.log = append(r.log, "resumed "+key) }
	r.gate = New(cfg, time.Now)
	return r
}

func (r *testRoute) put(m testMessage) {
	m.state.Message = fmt.Sprint(m.number)
	r.queue = append(r.queue, m)
}

// putBoth puts messages of two keys in turns.
func (r *testRoute) putBoth(first, second string, each int) {
	for i := range each {
		r.put(testMessage{key: first, number: i})
		r.put(testMessage{key: second, number: i})
	}
}

// run delivers messages until all are handled, as many at once as the route prefetches.
func (r *testRoute) run() { r.runUntil(r.t.Context()) }

// runUntil is run in a process that is killed when life ends: the messages that it has are
// delivered once more, in their order, before the others. It reports whether all are handled.
func (r *testRoute) runUntil(life context.Context) (done bool) {
	slots := make(chan struct{}, r.cfg.Concurrency+r.cfg.Room)
	var handlers sync.WaitGroup
	var delivered []*testMessage
	for life.Err() == nil {
		r.returnDue()
		if len(r.queue) == 0 {
			r.mu.Lock()
			done = len(r.waiting) == 0 && r.present == 0
			r.mu.Unlock()
			if done {
				break
			}
			time.Sleep(500 * time.Millisecond)
			continue
		}
		slots <- struct{}{}
		if life.Err() != nil {
			break
		}
		m := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Lock()
		delivered = append(delivered, &m)
		r.mu.Unlock()
		ticket := r.gate.Arrive(Delivery{Key: m.key, ID: m.state.Message, Position: m.position, Redelivered: m.again})
		r.addPresent(1)
		handlers.Go(func() {
			defer func() { <-slots }()
			defer r.addPresent(-1)
			defer ticket.Leave()
			done := r.try(life, ticket, m)
			r.mu.Lock()
			defer r.mu.Unlock()
			if done {
				delivered[slices.Index(delivered, &m)] = nil
			}
		})
	}
	handlers.Wait()
	var again []testMessage
	for _, m := range delivered {
		if m != nil {
			m.again = true
			again = append(again, *m)
		}
	}
	r.queue = append(again, r.queue...)
	return done
}

// restart starts another process, which reads the places.
func (r *testRoute) restart() {
	r.gate = New(r.gate.cfg, time.Now)
	for _, place := range r.places {
		r.gate.Remember(place)
	}
}

func (r *testRoute) addPresent(messages int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.present += messages
}

func (r *testRoute) returnDue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(m testMessage) bool {
		due := !m.due.After(time.Now())
		if due {
			r.queue = append(r.queue, m)
		}
		return due
	})
}

// try reports whether the message has an outcome. A process that is killed causes none.
func (r *testRoute) try(life context.Context, ticket *Ticket, m testMessage) bool {
	wait, err := r.gate.Begin(life, ticket, false)
	if err != nil {
		if life.Err() == nil {
			r.t.Error(err)
		}
		return false
	}
	if wait.Delay > 0 {
		return r.delay(life, ticket, m, wait.Delay, true)
	}
	r.count(m.key, 1)
	r.mu.Lock()
	took, err := r.handle(m)
	r.mu.Unlock()
	time.Sleep(took)
	r.count(m.key, -1)
	if life.Err() != nil {
		return false
	}
	if err == nil {
		ticket.Succeeded()
		r.mu.Lock()
		defer r.mu.Unlock()
		m.after = time.Since(r.start)
		r.handled = append(r.handled, m)
		ticket.Settle()
		r.placesMu.Lock()
		defer r.placesMu.Unlock()
		delete(r.places, ticket.Position())
		return true
	}
	before := m.state
	m.state = m.state.Failed(time.Now(), took, "q", schemas.Failure{Message: err.Error()})
	ticket.Failed(before, breaker.Failure{Cause: breaker.CauseOf(err), Failure: m.state.Failure})
	return r.delay(life, ticket, m, 5*time.Second, r.cfg.Ordered)
}

// delay takes the time of a publish, before whose end the process may be killed.
func (r *testRoute) delay(life context.Context, ticket *Ticket, m testMessage, d time.Duration, keepsPlace bool) bool {
	ticket.Away(d, func(places []Place) {
		r.placesMu.Lock()
		defer r.placesMu.Unlock()
		for _, place := range places {
			r.places[place.Position] = place
		}
	})
	time.Sleep(time.Millisecond)
	if life.Err() != nil {
		return false
	}
	m.position, m.due, m.again = 0, time.Now().Add(d), false
	if keepsPlace {
		m.position = ticket.Position()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, m)
	ticket.Settle()
	return true
}

func (r *testRoute) count(key string, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now[key] += by
	r.most[key] = max(r.most[key], r.now[key])
}

// A message was sent twice: one of the two waits in a delay queue, and keeps its place although the other one is
// delivered again. Without a place for the other one, only the first can be the one that is delivered: the process ended
// before the broker had it in the delay queue.
func TestPlaceOfOneOfTwoEqualMessages(t *testing.T) {
	for name, places := range map[string][]Place{
		"both":  {{Key: "k", ID: "twice", Position: 1, Due: time.Now().Add(time.Minute)}, {Key: "k", ID: "twice", Position: 2}},
		"other": {{Key: "k", ID: "twice", Position: 2, Due: time.Now().Add(time.Minute)}},
	} {
		g := New(Config{Concurrency: 2, Ordered: true, Room: 8}, time.Now)
		for _, place := range places {
			g.Remember(place)
		}
		if again := g.Arrive(Delivery{Key: "k", ID: "twice", Redelivered: true}); again.Position() != 2 {
			t.Errorf("%s: the position is %d", name, again.Position())
		}
	}
}

// Two equal messages keep their two places when they are delivered again, as after a lost connection, or since the
// places could not be written: a place without a message would hold up the next process.
func TestPlacesOfEqualMessages(t *testing.T) {
	g := New(Config{Concurrency: 2, Ordered: true, Room: 8}, time.Now)
	twice := Delivery{Key: "k", ID: "twice"}
	first, second := g.Arrive(twice), g.Arrive(twice)
	want := []int64{first.Position(), second.Position()}
	twice.Redelivered = true
	lost, lostToo := g.Arrive(twice), g.Arrive(twice) // while handlers have the former deliveries
	first.Leave()
	second.Leave()
	lost.Leave()
	requeued := g.Arrive(twice)
	lostToo.Leave()
	requeuedToo := g.Arrive(twice)
	for _, got := range [][]int64{{lost.Position(), lostToo.Position()}, {requeued.Position(), requeuedToo.Position()}} {
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("the positions are %d, and were %d", got, want)
		}
	}
}

// The process starts while the queue has many messages, in front of one that has returned
// since. Those of its key wait for it however long the others take; if it was lost, they
// wait until the queue is empty, or a message that was due later returns.
func TestMessageBehindManyOthersIsNotLost(t *testing.T) {
	for name, end := range map[string]func(g *Gate){
		"the queue is empty":       func(*Gate) { time.Sleep(quietTime + time.Second) },
		"a later message has come": func(g *Gate) { g.Arrive(Delivery{Key: "late", ID: "late", Position: 3}).Leave() },
		"it comes, and a new one":  nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			g := New(Config{Concurrency: 2, Ordered: true, Room: 8}, time.Now)
			g.Remember(Place{Key: "k", ID: "first", Position: 1, Due: time.Now().Add(-time.Hour)})
			g.Remember(Place{Key: "late", ID: "late", Position: 3, Due: time.Now().Add(returnGrace + time.Minute)})
			for range 1000 { // of other keys
				g.Arrive(Delivery{Key: "other"}).Leave()
				time.Sleep(time.Second)
			}
			next := g.Arrive(Delivery{Key: "k", ID: "next"})
			g.mu.Lock()
			if next.key.isNext(next) {
				t.Errorf("%s: the next message does not wait for the first", name)
			}
			g.mu.Unlock()
			if end == nil {
				first := g.Arrive(Delivery{Key: "k", ID: "first", Position: 1})
				first.Settle()
				first.Leave()
			} else {
				end(g)
			}
			if wait, err := g.Begin(t.Context(), next, false); wait.Delay != 0 || err != nil {
				t.Errorf("%s: %v %v", name, wait, err)
			}
		})
	}
}
