package failures

import (
	"context"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/system"
)

// Unresolved finds the failures that are not resolved. The consumer of a route without a
// handler is another program, which reports nothing.
func Unresolved(ctx context.Context, sys *system.System) (history.Failures, error) {
	events, err := sys.Store(ctx)
	if err != nil {
		return history.Failures{}, err
	}
	return history.NewFailures(ctx, events, sys.Settings().HandledQueues())
}
