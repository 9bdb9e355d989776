package app

import (
	"context"

	"github.com/watershipmq/watership/internal/history"
)

// Failures finds the failures that are not resolved. The consumer of a route without a
// handler is another program, which reports nothing.
func (a *App) Failures(ctx context.Context) (history.Failures, error) {
	events, err := a.Store(ctx)
	if err != nil {
		return history.Failures{}, err
	}
	return history.NewFailures(ctx, events, a.routeQueues(true))
}
