package cli

import (
	"context"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

const idsAtOnce = 10_000

// failures finds what was given up and is not resolved. The consumers of routes and
// of queues that have told of a message report.
func (s system) failures(ctx context.Context, store eventStore) (history.Failures, error) {
	reports := map[string]bool{}
	f := history.Failures{Store: store, Reports: func(queue string) bool { return reports[queue] }}
	if err := store.Refresh(ctx); err != nil {
		return f, err
	}
	for _, route := range s.cfg.Routes {
		reports[route.Queue] = true
	}
	handled, err := store.TopValues(ctx, eventstore.Selection{Query: is("event.action", string(schemas.Handled))}, "watership.queue", topValues)
	for _, queue := range handled.Values {
		reports[queue.Text] = true
	}
	return f, err
}
