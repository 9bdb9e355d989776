package cli

import (
	"context"
	"maps"
	"slices"

	"github.com/watershipmq/watership/eventstore/kql"
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

// exchanges returns the exchanges of the configuration and of the broker, without Watership's. No
// operation lists those, so that through a server they come from its events.
func exchanges(ctx context.Context, sys backend) []string {
	l, isLocal := sys.(*local)
	if !isLocal {
		return topValues(ctx, sys, kql.All{}, "messaging.destination.name")
	}
	names := map[string]bool{}
	for _, tap := range l.Settings().Tap.Exchanges {
		names[tap.Name] = true
	}
	for _, route := range l.Settings().Routes {
		for _, bind := range route.Bind {
			names[bind.Exchange] = true
		}
	}
	if management, err := l.Management(); err == nil {
		existing, _ := management.Exchanges(ctx, l.VHost())
		for _, exchange := range existing {
			if exchange.Name != "" && !exchange.Internal && !l.Topology().Owns(exchange.Name) {
				names[exchange.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
