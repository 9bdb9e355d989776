//go:build goruntime

package simulation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// All goroutines of a process have its clock, and no other ones. The time between two moments is right.
func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, wrong := time.Now(), newClock(time.Hour)
		ahead := func() time.Duration { return time.Now().Round(0).Sub(begun.Round(0)) - time.Since(begun) }
		seen := make(chan time.Duration, 4)
		wrong.run(func() {
			go func() { seen <- ahead() }()
			time.AfterFunc(time.Second, func() { seen <- ahead() })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			context.AfterFunc(ctx, func() { seen <- ahead() })
			before := time.Now()
			time.Sleep(3 * time.Second)
			wrong.step(-3 * time.Hour)
			if passed := time.Since(before); passed != 3*time.Second {
				t.Errorf("%s have passed: expected 3s", passed)
			}
			runRight(func() {
				go func() { seen <- ahead() }()
			})
			if got := ahead(); got != -2*time.Hour {
				t.Errorf("after a step the clock is ahead by %s: expected -2h", got)
			}
		})
		for _, want := range []time.Duration{time.Hour, time.Hour, time.Hour, 0} {
			if got := <-seen; got != want {
				t.Errorf("the clock of a goroutine is ahead by %s: expected %s", got, want)
			}
		}
		if got := ahead(); got != 0 {
			t.Errorf("the clock of the test is ahead by %s", got)
		}
	})
}
