package transport

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

type deliveryKey struct{}

// deliveryInfo is the part of a delivery that is not about the message.
type deliveryInfo struct {
	tag         uint64
	redelivered bool
}

// Redelivered reports whether the broker marked the message being handled as delivered
// before: to a handler that failed, or to a process that died.
func Redelivered(ctx context.Context) bool {
	d, _ := ctx.Value(deliveryKey{}).(deliveryInfo)
	return d.redelivered
}

// DeliveryTag returns the delivery tag of the message being handled, 0 outside of a
// handler. The tags of a subscription rise until its channel ends.
func DeliveryTag(ctx context.Context) uint64 {
	d, _ := ctx.Value(deliveryKey{}).(deliveryInfo)
	return d.tag
}

func withDelivery(ctx context.Context, d *amqp.Delivery) context.Context {
	return context.WithValue(ctx, deliveryKey{}, deliveryInfo{d.DeliveryTag, d.Redelivered})
}
