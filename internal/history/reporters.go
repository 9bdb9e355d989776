package history

import (
	"context"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Destination is a queue, or an exchange with a routing key.
type Destination struct {
	Queue                string
	Exchange, RoutingKey string // without a Queue
}

// Counter counts events.
type Counter interface {
	Count(ctx context.Context, selection eventstore.Selection) (int64, error)
}

// FirstUnreported returns the first destination of which no consumer has reported that it
// handled a message; false if none exists.
func FirstUnreported(ctx context.Context, store Counter, destinations []Destination) (Destination, bool, error) {
	for _, d := range destinations {
		if is, err := isReported(ctx, store, d); err != nil || !is {
			return d, err == nil, err
		}
	}
	return Destination{}, false, nil
}

// isReported reports whether a consumer of a destination has reported that it handled a
// message.
func isReported(ctx context.Context, store Counter, d Destination) (bool, error) {
	return hasEvents(ctx, store, d, withActions(schemas.Handled))
}

// ReturnsOf reads the history of a destination with messages about which nothing was reported: reports
// is true if its consumers have reported before that they handled a message, so that such messages are
// still under way, and returns if messages that they failed at have come back before.
func ReturnsOf(ctx context.Context, store Counter, d Destination) (reports, returns bool, err error) {
	if reports, err = isReported(ctx, store, d); err == nil {
		returns, err = hasEvents(ctx, store, d, withActions(schemas.RetryScheduled, schemas.Poisoned))
	}
	return reports, returns, err
}

// hasEvents reports whether there are events of some actions at a destination.
func hasEvents(ctx context.Context, store Counter, d Destination, actions kql.Node) (bool, error) {
	query := kql.And{actions}
	if d.Queue != "" {
		query = append(query, kql.FieldIs("watership.queue", d.Queue))
	} else {
		query = append(query, kql.FieldIs("messaging.destination.name", d.Exchange), kql.FieldIs("messaging.rabbitmq.destination.routing_key", d.RoutingKey))
	}
	n, err := store.Count(ctx, eventstore.Selection{Query: query, Limit: 1})
	return n > 0, err
}
