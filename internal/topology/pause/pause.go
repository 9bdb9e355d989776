// Package pause pauses routes by hand, one or all. A paused route is a binding in RabbitMQ, which
// survives restarts, with the name of the route's queue as its key: the exchange Pauses
// then routes a message with that key to the queue Paused, which keeps nothing. Each
// process with a route asks by publishing such a message with the mandatory flag. RabbitMQ
// returns it unless the route is paused. So a process needs no other right than to write
// to the exchange, and no other server.
package pause

import (
	"context"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Publisher publishes with confirms. An *rabbit.UnroutableError is the return of a message,
// which no alternate exchange prevents, as topology.Reconciler.EnsureReturns makes sure.
type Publisher interface {
	Publish(ctx context.Context, m rabbit.Message) error
}

// All is the queue by which all routes are paused, also those that do not exist yet.
const All = ""

// keyOf returns the key of the binding that pauses the route of a queue, or All. No route has
// the queue of pauses.
func keyOf(t schemas.Topology, queue string) string {
	if queue == All {
		return t.Paused()
	}
	return queue
}

// Paused asks RabbitMQ whether an operator has paused the route of a queue itself, or All.
func Paused(ctx context.Context, by Publisher, t schemas.Topology, queue string) (bool, error) {
	return routed(ctx, by, t, keyOf(t, queue))
}
