package app

import (
	"context"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

// mostQueues bounds the queues whose consumers report `handled` events.
const mostQueues = 10_000

// Failures finds the failures that are not resolved. The consumers of routes, and of
// queues that have a `handled` event, report.
func (a *App) Failures(ctx context.Context) (history.Failures, error) {
	reports := map[string]bool{}
	f := history.Failures{Reports: func(queue string) bool { return reports[queue] }}
	events, err := a.Store(ctx)
	if err != nil {
		return f, err
	}
	f.Store = events
	if err := events.Refresh(ctx); err != nil {
		return f, err
	}
	for _, route := range a.settings.Routes {
		reports[route.Queue] = true
	}
	handled, err := events.TopValues(ctx, eventstore.Selection{Query: is("event.action", string(schemas.Handled))}, "watership.queue", mostQueues)
	for _, queue := range handled.Values {
		reports[queue.Text] = true
	}
	return f, err
}
