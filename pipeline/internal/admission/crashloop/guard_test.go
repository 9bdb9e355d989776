package crashloop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A suspect begins beside no other message, and another suspect does not wait for it.
func TestSuspectIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(5)
		endOther, err := g.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := make(chan func(), 1)
		go func() {
			end, ok, err := g.BeginAlone(t.Context())
			if !ok || err != nil {
				t.Errorf("the suspect does not begin: %v", err)
			}
			began <- end
		}()
		synctest.Wait()
		if _, ok, err := g.BeginAlone(t.Context()); ok || err != nil {
			t.Errorf("a second suspect begins: %v, %v", ok, err)
		}
		if len(began) > 0 {
			t.Error("the suspect began beside another message")
		}
		endOther()
		end := <-began
		later := make(chan struct{})
		go func() {
			endLater, err := g.Begin(t.Context())
			if err != nil {
				t.Error(err)
			}
			close(later)
			endLater()
		}()
		synctest.Wait()
		select {
		case <-later:
			t.Error("another message began beside the suspect")
		default:
		}
		end()
		<-later
		if end, ok, err := g.BeginAlone(t.Context()); !ok || err != nil {
			t.Errorf("no suspect begins any more: %v", err)
		} else {
			end()
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
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, ok, err := g.BeginAlone(ctx); ok || err == nil {
			t.Error("a suspect began after its delivery had ended")
		}
		end, ok, err := g.BeginAlone(t.Context())
		if !ok || err != nil {
			t.Fatalf("the suspect waits for a handler that hangs: %v", err)
		}
		end()
	})
}

// The last two of the deliveries that the limit allows are those of a suspect, as far as
// there are so many.
func TestLimits(t *testing.T) {
	for limit, together := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 5: 3, 100: 98} {
		g := New(limit)
		if g.Suspects(together-1) || !g.Suspects(together) {
			t.Errorf("limit %d: not exactly %d deliveries make a suspect", limit, together)
		}
		if all, condemned := g.Condemns(limit - together); !condemned || all != limit {
			t.Errorf("limit %d: a suspect with all its %d deliveries is not poison", limit, all)
		}
		if _, condemned := g.Condemns(limit - together - 1); condemned {
			t.Errorf("limit %d: a suspect with fewer is poison", limit)
		}
	}
	for _, none := range []int{0, -1} {
		if _, condemned := New(none).Condemns(1000); condemned || New(none).Suspects(1000) {
			t.Error("a message is poison without a limit")
		}
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

// TestSuspectWaitsForThoseThatLeave: a suspect begins a second after the last of the others has
// left the process, and does not wait for one that cannot leave for ever.
func TestSuspectWaitsForThoseThatLeave(t *testing.T) {
	for leaves, want := range map[time.Duration]time.Duration{0: time.Second, 4 * time.Second: 5 * time.Second, time.Hour: aloneTimeout} {
		synctest.Test(t, func(t *testing.T) {
			g, came := New(5), time.Now()
			if leaves > 0 {
				time.AfterFunc(leaves, g.Leave())
			}
			end, ok, err := g.BeginAlone(t.Context())
			if took := time.Since(came); !ok || err != nil || took < want || took > want+aloneAfter/2 {
				t.Errorf("others leave after %s: the suspect begins after %s, %v; want %s", leaves, took, err, want)
			}
			end()
		})
	}
}
