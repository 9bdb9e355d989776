package output

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A queue that does not confirm takes a share of the places, and one place as soon as
// that is known. Messages beyond that are not sent, so they do not arrive twice.
func TestLimiterBoundsAQueueThatDoesNotConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const share = 16
		limiter := NewLimiter("", func() (string, func()) { return "", func() {} }, 30*time.Second, share)
		var sent atomic.Int32
		silent := func(ctx context.Context, _ string) error {
			sent.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}
		publish := func(n int, f func(context.Context, string) error) (refused *atomic.Int32) {
			refused = &atomic.Int32{}
			for range n {
				go func() {
					if err := limiter.Publish(t.Context(), "silent", f); errors.Is(err, ErrNotConfirmed) {
						refused.Add(1)
					}
				}()
			}
			return refused
		}
		check := func(when string, got, want int32) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %d, want %d", when, got, want)
			}
		}

		refused := publish(100, silent)
		synctest.Wait()
		check("sent at first", sent.Load(), share)
		time.Sleep(slotTimeout)
		synctest.Wait()
		check("refused after a while", refused.Load(), 100-share)
		publish(10, silent)
		synctest.Wait()
		check("sent once that is known", sent.Load(), share+1)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		check("refused in the end", refused.Load(), 100)
		publish(10, silent)
		synctest.Wait()
		check("sent after that", sent.Load(), share+2)
		time.Sleep(30 * time.Second)
		synctest.Wait()

		if err := limiter.Publish(t.Context(), "silent", func(context.Context, string) error { return nil }); err != nil {
			t.Error(err)
		}
		publish(100, silent)
		synctest.Wait()
		check("sent once the queue confirms again", sent.Load(), 2*share+2)
		time.Sleep(time.Minute)
	})
}
