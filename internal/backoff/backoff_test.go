package backoff

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPauseDoublesUpToMax(t *testing.T) {
	b := Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for failures, full := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond, 5: time.Second, 100: time.Second,
	} {
		shortest, longest := full, time.Duration(0)
		for range 1000 {
			pause := b.Pause(failures)
			if pause < full/2 || pause > full {
				t.Fatalf("after %d failures: %v", failures, pause)
			}
			shortest, longest = min(shortest, pause), max(longest, pause)
		}
		if longest-shortest < full/4 {
			t.Errorf("after %d failures: from %v to %v", failures, shortest, longest)
		}
	}
	if pause := (Backoff{Max: time.Second}).Pause(3); pause != 0 {
		t.Errorf("without Min: %v", pause)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, start := Backoff{Min: time.Second, Max: time.Minute}, time.Now()
		if err := b.Wait(t.Context(), 1, 0); err != nil || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		start = time.Now()
		if err := b.Wait(t.Context(), 1, time.Hour); err != nil || time.Since(start) != time.Hour {
			t.Errorf("at least an hour: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		over := errors.New("over")
		time.AfterFunc(time.Millisecond, func() { cancel(over) })
		start = time.Now()
		if err := b.Wait(ctx, 1, 0); !errors.Is(err, over) || time.Since(start) != time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
