package operation

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
)

// A runner has a limit of jobs at a time, and waits for them when it stops.
func TestRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		runner, stopped := NewRunner(2), make(chan struct{})
		go func() {
			defer close(stopped)
			runner.Run(ctx, slog.New(slog.DiscardHandler))
		}()
		end, interrupted := make(chan struct{}), 0
		job := func(ctx context.Context, _ *slog.Logger) {
			select {
			case <-end:
			case <-ctx.Done():
				interrupted++
			}
		}
		wantStart := func(want error) {
			t.Helper()
			if err := runner.Start(t.Context(), job); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			synctest.Wait()
		}
		wantStart(nil)
		wantStart(nil)
		wantStart(ErrBusy)
		end <- struct{}{}
		synctest.Wait()
		wantStart(nil)
		end <- struct{}{}
		stop()
		<-stopped
		if interrupted != 1 {
			t.Errorf("%d jobs were interrupted", interrupted)
		}
		wantStart(ErrStopping)
	})
}
