package crashloop

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Suspects begin in the order of their tags, one at a time, beside no other message and
// before those that are delivered later.
func TestSuspectsAreAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(5)
		endOther, err := g.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex // guards running and order
		var running int
		var order []uint64
		for _, tag := range []uint64{3, 1, 2} {
			go func() {
				end, err := g.BeginAlone(t.Context(), tag)
				if err != nil {
					t.Error(err)
					return
				}
				defer end()
				mu.Lock()
				running++
				if order = append(order, tag); running > 1 {
					t.Errorf("%d suspects at once", running)
				}
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
			}()
		}
		time.Sleep(2 * time.Second)
		mu.Lock()
		if len(order) > 0 {
			t.Error("a suspect began beside another message")
		}
		mu.Unlock()
		endOther()
		time.Sleep(time.Second / 2)
		began := make(chan struct{})
		go func() {
			end, err := g.Begin(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			close(began)
			end()
		}()
		<-began
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(order, []uint64{1, 2, 3}) {
			t.Errorf("order %v when another message began", order)
		}
	})
}

// A suspect waits for handlers that do not return, but not for ever, and not longer than
// its delivery lasts.
func TestSuspectBesideAHandlerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(5)
		if _, err := g.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		end, err := g.BeginAlone(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := g.BeginAlone(ctx, 2); err == nil {
			t.Error("a suspect began beside another one")
		}
		end()
		if end, err = g.BeginAlone(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		end()
	})
}

func TestOneSuspectOfAProcessIsCondemned(t *testing.T) {
	g := New(3)
	if g.Condemns(2) || !g.Condemns(3) || g.Condemns(4) {
		t.Error("expected exactly the first message with three deliveries")
	}
}

// Deliveries that the process survived do not count, and without a limit none does.
func TestSurvivedDeliveriesDoNotCount(t *testing.T) {
	g := New(3)
	g.Survived("a")
	if g.Counts("a") || !g.Counts("b") || New(-1).Counts("b") {
		t.Error("a counts, or b does not")
	}
	for i := range maxSurvivors + 1 {
		g.Survived(string(rune('b' + i)))
	}
	if len(g.survivors) > maxSurvivors {
		t.Errorf("%d are remembered", len(g.survivors))
	}
}

// As many redeliveries do not count as messages were requeued that no handler had.
func TestRequeuedDeliveriesDoNotCount(t *testing.T) {
	g := New(3)
	g.Requeued(2)
	if g.Counts("a") || g.Counts("b") || !g.Counts("c") {
		t.Error("expected exactly two that do not count")
	}
	g.Requeued(maxSurvivors + 1)
	for range maxSurvivors {
		g.Counts("d")
	}
	if !g.Counts("d") {
		t.Error("more messages are remembered than the limit")
	}
}
