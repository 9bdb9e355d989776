package shadow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/retry"
)

// A candidate that does not answer has one error, however many messages follow.
func TestUnavailableCandidateHasOneError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := func(context.Context, Message) (Result, error) {
			return Result{}, retry.Unavailable(errors.New("refused"))
		}
		r := &run{Config: Config{Concurrency: 1, Handler: away}, limiter: rate.NewLimiter(rate.Inf, 1)}
		err := r.callAll(t.Context(), []*call{{}, {}, {}, {}})
		if err == nil || strings.Count(err.Error(), "refused") != 1 {
			t.Error(err)
		}
	})
}
