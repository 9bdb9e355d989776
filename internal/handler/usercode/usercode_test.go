package usercode

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/retry"
)

func TestRunReturnsTheEndOfAFunction(t *testing.T) {
	goroutines := newGoroutines(t)
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		f       func() error
		want    error
		aborted bool
	}{
		"returned": {func() error { return nil }, nil, false},
		"failed":   {func() error { return broken }, broken, false},
		"ended":    {func() error { runtime.Goexit(); return nil }, errGoexit, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := goroutines.Run(test.f); !errors.Is(err, test.want) || Aborted(err) != test.aborted {
				t.Errorf("got %v", err)
			}
		})
	}
	var panicked *retry.PanicError
	err := goroutines.Run(func() error { panic("broken") })
	if !errors.As(err, &panicked) || panicked.Value != "broken" || len(panicked.Stack) > stackLimit || !Aborted(err) {
		t.Errorf("got %v", err)
	}
}

func TestCallWithinDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goroutines := newGoroutines(t)
		end := make(chan struct{})
		started := time.Now()
		_, err := CallWithin(goroutines, time.Minute, func() (int, error) { <-end; return 1, nil })
		if !Aborted(err) || time.Since(started) != time.Minute {
			t.Errorf("got %v after %s", err, time.Since(started))
		}
		close(end)
	})
}

// A goroutine runs one function after the other, and functions that run at once have one
// each, as has a function that another one calls. All end, or the test does not.
func TestGoroutinesAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Goroutines{}
		for range 100 {
			err := g.Run(func() error {
				_ = g.Run(func() error { runtime.Goexit(); return nil })
				return g.Run(func() error { panic("broken") })
			})
			if !Aborted(err) {
				t.Errorf("got %v", err)
			}
		}
		if n := len(g.idle); n != 2 {
			t.Errorf("%d goroutines", n)
		}
		end := make(chan struct{})
		if _, err := CallWithin(g, time.Minute, func() (int, error) { <-end; return 1, nil }); !Aborted(err) {
			t.Errorf("got %v", err)
		}
		g.Close()
		close(end)
		if err := g.Run(func() error { return nil }); err != nil || len(g.idle) > 0 {
			t.Errorf("after Close: %v, %d goroutines", err, len(g.idle))
		}
	})
}

func newGoroutines(t *testing.T) *Goroutines {
	g := &Goroutines{}
	t.Cleanup(g.Close)
	return g
}
