package storeread

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// TestRetriesEnd: retries end with the error of the store, at once if the error is not
// temporary.
func TestRetriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for kind, want := range map[eventstore.ErrorKind]time.Duration{
			eventstore.Unavailable: 30 * time.Second, eventstore.Overloaded: 30 * time.Second, eventstore.Unauthorized: 0, eventstore.BadRequest: 0,
		} {
			began := time.Now()
			_, err := Do(t.Context(), 30*time.Second, func() (int, error) { return 0, &eventstore.Error{Kind: kind} })
			var failed *eventstore.Error
			if !errors.As(err, &failed) || failed.Kind != kind {
				t.Errorf("kind %d: ended with %v", kind, err)
			}
			if took := time.Since(began); took < want || took > want+maxPause {
				t.Errorf("kind %d: ended after %s", kind, took)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := Do(ctx, time.Hour, func() (int, error) { return 0, &eventstore.Error{Kind: eventstore.Overloaded, RetryAfter: time.Hour} })
		if took := time.Since(began); err == nil || took != time.Second {
			t.Errorf("after its context it ended with %v in %s", err, took)
		}
	})
}
