package cli

import (
	"context"
	"maps"
	"slices"

	"github.com/watershipmq/watership/internal/operate/routes"
)

// queues returns the queues of the configuration and of the broker, without Watership's.
func queues(ctx context.Context, sys backend) []string {
	names := map[string]bool{}
	if l, isLocal := sys.(*local); isLocal {
		for _, route := range l.Settings().Routes {
			names[route.Queue] = true
		}
	}
	page, _ := routes.ListQueues.Call(ctx, sys, routes.QueuesInput{Limit: wholePage}) // without an answer there are fewer to choose from
	for _, queue := range page.Body.Queues {
		if !queue.Own {
			names[queue.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// exchanges returns the exchanges of the configuration and of the broker, without Watership's.
func exchanges(ctx context.Context, sys backend) []string {
	listed, _ := routes.ListExchanges.Call(ctx, sys, struct{}{}) // without an answer there are none to choose from
	return listed.Body.Exchanges
}
