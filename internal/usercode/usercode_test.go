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
			if err := Run(test.f); !errors.Is(err, test.want) || Aborted(err) != test.aborted {
				t.Errorf("got %v", err)
			}
		})
	}
	var panicked *retry.PanicError
	err := Run(func() error { panic("broken") })
	if !errors.As(err, &panicked) || panicked.Value != "broken" || len(panicked.Stack) > stackLimit || !Aborted(err) {
		t.Errorf("got %v", err)
	}
}

func TestCallWithinDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		started := time.Now()
		_, err := CallWithin(time.Minute, func() (int, error) { <-end; return 1, nil })
		if !Aborted(err) || time.Since(started) != time.Minute {
			t.Errorf("got %v after %s", err, time.Since(started))
		}
		close(end)
	})
}
