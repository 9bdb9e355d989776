package transport

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

type redeliveredKey struct{}

// Redelivered reports whether the broker marked the message being handled as delivered
// before: to a handler that failed, or to a process that died.
func Redelivered(ctx context.Context) bool {
	redelivered, _ := ctx.Value(redeliveredKey{}).(bool)
	return redelivered
}

func withDelivery(ctx context.Context, d *amqp.Delivery) context.Context {
	return context.WithValue(ctx, redeliveredKey{}, d.Redelivered)
}
