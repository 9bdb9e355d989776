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
	var routes []string
	for _, route := range a.configured().Routes {
		if route.HasHandler() {
			routes = append(routes, route.Queue)
		}
	}
	return history.NewFailures(ctx, events, routes)
}
