package exclusive_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/exclusive"
)

// A caller that stops waiting for a queue learns that it was stopped. Whether the holder of the queue lives
// is not known then.
func TestOpenIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker.New(broker.Config{})
		defer b.Close()
		cfg := rabbit.Config{URL: b.URL(), Dial: b.Dial}
		holder, err := exclusive.Open(t.Context(), cfg, "job", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Close()
		stopped := errors.New("the server stops")
		ctx, stop := context.WithCancelCause(t.Context())
		opened := make(chan error)
		open := func() {
			_, err := exclusive.Open(ctx, cfg, "job", time.Minute)
			opened <- err
		}
		go open()
		synctest.Wait() // until it waits for its next attempt
		stop(stopped)
		if err := <-opened; !errors.Is(err, stopped) || errors.Is(err, exclusive.ErrLocked) {
			t.Errorf("stopped: %v", err)
		}
		ctx = t.Context()
		go open()
		if err := <-opened; !errors.Is(err, exclusive.ErrLocked) {
			t.Errorf("the holder lives: %v", err)
		}
	})
}
