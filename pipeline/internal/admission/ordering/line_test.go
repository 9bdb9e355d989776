package ordering

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newLine(open func(context.Context, Waiting) (bool, error)) *Line {
	return New(Config{Handlers: 2, Room: 2, Within: 10 * time.Minute, Open: open}, time.Now)
}

func (l *Line) arrive(key, fingerprint string, sequence int64) *Ticket {
	return l.Arrive(Arrival{Key: key, Fingerprint: fingerprint, Sequence: sequence})
}

// await runs Await in the bubble of a test, and returns how it ends and after which time.
func await(t *testing.T, ticket *Ticket, first time.Time, paused <-chan struct{}) (end func() (Outcome, time.Duration)) {
	t.Helper()
	began, outcome, took := time.Now(), Outcome(-1), time.Duration(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		outcome = ticket.Await(t.Context(), first, paused, func(time.Time) {})
		took = time.Since(began)
	}()
	return func() (Outcome, time.Duration) { <-done; return outcome, took }
}

func wantOutcome(t *testing.T, end func() (Outcome, time.Duration), want Outcome, after time.Duration) {
	t.Helper()
	if got, took := end(); got != want || took != after {
		t.Errorf("outcome %d after %s, want %d after %s", got, took, want, after)
	}
}

// A message that has waited for long for an open failure goes soon after that is replayed: the
// store has the event a moment later.
func TestReplayedFailureReleasesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isOpen atomic.Bool
		isOpen.Store(true)
		l := newLine(func(context.Context, Waiting) (bool, error) { return isOpen.Load(), nil })
		first, second := l.arrive("a", "1", 0), l.arrive("a", "2", 0)
		first.GivenUp()
		first.Leave()
		end := await(t, second, time.Now(), nil)
		time.Sleep(4 * time.Minute)
		again := l.arrive("a", "1", 0)
		time.Sleep(time.Second)
		again.Handled()
		again.Leave()
		time.Sleep(time.Second)
		isOpen.Store(false)
		wantOutcome(t, end, Go, 4*time.Minute+time.Second+openEvery)
	})
}

// A message waits for an earlier one of its key alone, and goes at once when that is handled:
// by its first attempt or by a later one.
func TestMessagesWaitForEarlierOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(nil)
		first, other, second := l.arrive("a", "1", 0), l.arrive("b", "x", 0), l.arrive("a", "2", 0)
		end := await(t, second, time.Now(), nil)
		time.Sleep(time.Minute)
		other.Handled()
		other.Leave()
		first.Waits(30 * time.Second)
		first.Leave()
		time.Sleep(30 * time.Second)
		again := l.arrive("a", "1", 0)
		synctest.Wait()
		again.Handled()
		again.Leave()
		wantOutcome(t, end, Go, 90*time.Second)
		wantOutcome(t, await(t, l.arrive("a", "3", 0), time.Now(), nil), Later, memoryWait) // it waits for 2, which the process still has
	})
}

// A queue has returned the messages 3, 2 and 1 of a key in this order: 3 waits elsewhere for an
// unknown one, which 2 would be. Once 1 is handled, 2 does not wait for 3.
func TestMessagesInAnotherOrderDoNotWaitForEachOther(t *testing.T) {
	for name, open := range map[string]func(context.Context, Waiting) (bool, error){
		"no store": nil,
		"a store":  func(_ context.Context, w Waiting) (bool, error) { return w.Fingerprint == "2", nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(open)
				third, second, first := l.arrive("a", "3", 0), l.arrive("a", "2", 0), l.arrive("a", "1", 0)
				wantOutcome(t, await(t, third, time.Now(), nil), Alone, 0)
				third.Waits(time.Hour)
				third.Leave()
				end := await(t, second, time.Now(), nil)
				time.Sleep(time.Minute)
				first.Handled()
				first.Leave()
				wantOutcome(t, end, Go, time.Minute)
			})
		})
	}
}

// A queue has returned the messages 3, 4, 2 and 1 of a key in this order: 4 and 2 wait in the process
// for 3. Once 1 is handled, 4 fails early once more, and 2 does not wait for it.
func TestMessagesThatFailEarlyArePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(nil)
		third, fourth, second, first := l.arrive("a", "3", 0), l.arrive("a", "4", 0), l.arrive("a", "2", 0), l.arrive("a", "1", 0)
		attempt := func(ticket *Ticket) {
			if !ticket.Begin(t.Context()) {
				t.Fatal("no turn")
			}
			ticket.End()
		}
		wantOutcome(t, await(t, third, time.Now(), nil), Alone, 0)
		fourthGoes, secondGoes := await(t, fourth, time.Now(), nil), await(t, second, time.Now(), nil)
		time.Sleep(time.Minute)
		first.Handled()
		first.Leave()
		attempt(third)
		wantOutcome(t, await(t, third, time.Now(), nil), Alone, 0)
		third.Waits(time.Second)
		third.Leave()
		third = l.arrive("a", "3", 0)
		wantOutcome(t, fourthGoes, Go, time.Minute)
		attempt(fourth)
		fourthGoes = await(t, fourth, time.Now(), nil)
		wantOutcome(t, secondGoes, Go, time.Minute)
		attempt(second)
		for _, handled := range []*Ticket{second, third} {
			handled.Handled()
			handled.Leave()
		}
		wantOutcome(t, fourthGoes, Go, 0)
	})
}

func TestWaitsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		before func(l *Line) // what is known of key a
		failed time.Duration // since the first failure
		want   Outcome
		after  time.Duration
	}{
		"nothing is known":               {func(*Line) {}, 0, Alone, 0},
		"an earlier one is inside":       {func(l *Line) { l.arrive("a", "1", 0) }, 0, Later, memoryWait},
		"it has waited for long":         {func(l *Line) { l.arrive("a", "1", 0) }, 8 * time.Minute, Alone, 2 * time.Minute},
		"it has waited for too long":     {func(l *Line) { l.arrive("a", "1", 0) }, 10 * time.Minute, Alone, 0},
		"an earlier one does not return": {func(l *Line) { e := l.arrive("a", "1", 0); e.Waits(-returnGrace + time.Minute); e.Leave() }, 0, Go, time.Minute},
		"an earlier one was requeued":    {func(l *Line) { l.arrive("a", "1", 0).Leave() }, 0, Go, lostGrace},
		"an earlier one was given up":    {func(l *Line) { e := l.arrive("a", "1", 0); e.GivenUp(); e.Leave() }, 6 * time.Minute, Alone, 4 * time.Minute},
		"an earlier sequence":            {func(l *Line) { l.arrive("a", "1", 4) }, 0, Later, memoryWait},
		"a later sequence":               {func(l *Line) { l.arrive("a", "1", 6) }, 0, Alone, 0},
		"a later one was given up":       {func(l *Line) { e := l.arrive("a", "1", 6); e.GivenUp(); e.Leave() }, 0, Alone, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(nil)
				test.before(l)
				var sequence int64
				if strings.Contains(name, "sequence") || strings.Contains(name, "later") {
					sequence = 5
				}
				wantOutcome(t, await(t, l.arrive("a", "2", sequence), time.Now().Add(-test.failed), nil), test.want, test.after)
			})
		})
	}
}

// A pause, the end of the route and the end of the delivery end all waits, and there is room for
// so many.
func TestWaitsAreStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(nil)
		l.arrive("a", "1", 0)
		paused := make(chan struct{})
		second, third := await(t, l.arrive("a", "2", 0), time.Now(), paused), await(t, l.arrive("a", "3", 0), time.Now(), nil)
		synctest.Wait()
		wantOutcome(t, await(t, l.arrive("a", "4", 0), time.Now(), nil), Later, 0)
		close(paused)
		wantOutcome(t, second, Later, 0)
		for range 2 {
			if !l.arrive("a", "5", 0).Begin(t.Context()) {
				t.Fatal("no turn for two handlers")
			}
		}
		time.Sleep(time.Second)
		l.Close()
		wantOutcome(t, third, Stopped, time.Second)
		if l.arrive("a", "6", 0).Begin(t.Context()) {
			t.Error("a turn after the end")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var none *Ticket
		if none.Begin(ctx) != true || none.Await(ctx, time.Now(), nil, func(time.Time) {}) != Alone {
			t.Error("a message without a ticket waits")
		}
	})
}

// The store decides about messages that the process does not know, and about those that are
// elsewhere for long. While it is away, what was known counts.
func TestTheStoreDecidesWhenUnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards the variables below
		open, away, asked := true, error(nil), 0
		set := func(change func()) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				change()
			}
		}
		l := newLine(func(_ context.Context, w Waiting) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			if asked++; w.Key != "a" || w.Fingerprint != "2" || w.First.IsZero() {
				t.Errorf("asked about %+v", w)
			}
			return open, away
		})
		time.AfterFunc(72*time.Second, set(func() { open = false }))
		time.AfterFunc(40*time.Second, set(func() { away = errors.New("away") }))
		time.AfterFunc(60*time.Second, set(func() { away = nil }))
		wantOutcome(t, await(t, l.arrive("a", "2", 0), time.Now(), nil), Go, 80*time.Second) // it is asked less often by then
		if asked > 20 {
			t.Errorf("asked %d times", asked)
		}
		failed := l.arrive("a", "1", 1)
		failed.GivenUp()
		failed.Leave()
		set(func() { asked = 0 })() // its event may not be stored yet
		wantOutcome(t, await(t, l.arrive("a", "2", 2), time.Now(), nil), Go, openAfter)
		if asked == 0 || asked > 3 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// The message before it is handled while the attempt runs: the next attempt follows at once.
func TestHandledDuringTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(nil)
		first, second := l.arrive("a", "1", 0), l.arrive("a", "2", 0)
		if !second.Begin(t.Context()) {
			t.Fatal("no turn")
		}
		first.Handled()
		first.Leave()
		second.End()
		wantOutcome(t, await(t, second, time.Now(), nil), Go, 0)
		if !second.Begin(t.Context()) {
			t.Fatal("no turn")
		}
		second.End()
		wantOutcome(t, await(t, second, time.Now(), nil), Alone, 0)
	})
}

// A message that returns from a delay queue keeps its place, in another process, too.
func TestPlacesTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newLine(nil).arrive("a", "1", 0)
		time.Sleep(time.Second)
		l := newLine(nil)
		second := l.arrive("a", "2", 0)
		again := l.Arrive(Arrival{Key: "a", Fingerprint: "1", Position: first.Position()})
		wantOutcome(t, await(t, again, time.Now(), nil), Alone, 0)
		end := await(t, second, time.Now(), nil)
		synctest.Wait()
		again.Handled()
		wantOutcome(t, end, Go, 0)
	})
}

// A wait in the process is recorded once it has lasted for some time, with its end, and not if it is short.
func TestLongWaitsAreRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		waits, until time.Duration
		within       time.Duration
	}{
		"short":            {standsAfter - time.Second, 0, time.Hour},
		"long":             {time.Minute, memoryWait, time.Hour},
		"as long as it is": {time.Minute, 2 * time.Minute, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(Config{Handlers: 2, Room: 2, Within: test.within}, time.Now)
				first := l.Arrive(Arrival{Key: "a", Fingerprint: "1", ID: "order-1"})
				second := l.Arrive(Arrival{Key: "a", Fingerprint: "2", ID: "order-2"})
				began, failed, early, until := time.Now(), time.Time{}, errors.New("early"), []time.Duration(nil)
				done := make(chan Outcome)
				go func() {
					outcome, _ := second.Repeat(t.Context(), Attempts{
						Attempt: func() error {
							if second.Earlier() == "" {
								return nil
							}
							return early
						},
						IsEarly: func(error) bool { return true }, First: &failed, Recovering: func() bool { return false },
						Paused: func() (bool, <-chan struct{}) { return false, nil },
						Stands: func(why error, end time.Time) {
							if until = append(until, end.Sub(began)); !errors.Is(why, early) || second.Earlier() != "order-1" {
								t.Errorf("%v, after %q", why, second.Earlier())
							}
						},
					})
					done <- outcome
				}()
				time.Sleep(test.waits)
				first.Handled()
				first.Leave()
				<-done
				if test.until == 0 && len(until) > 0 || test.until > 0 && (len(until) != 1 || until[0] != test.until) {
					t.Errorf("recorded until %v", until)
				}
			})
		})
	}
}
