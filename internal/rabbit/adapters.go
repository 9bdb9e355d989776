package rabbit

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Consumer is a Connection with only types of the client in its methods, for packages
// that other modules use.
type Consumer struct {
	*Connection
	Tag string // of consumers; "": another for each

	// Setup runs before each session of a queue, which it may declare. Nil: no setup.
	Setup func(ctx context.Context, queue string) error
}

// Consume is Connection.Consume of a queue; a delivery acknowledges itself.
func (c Consumer) Consume(ctx context.Context, queue string, prefetch int, f func(context.Context, <-chan amqp.Delivery) error) error {
	q := ConsumeConfig{Queue: queue, Prefetch: prefetch, Tag: c.Tag}
	if c.Setup != nil {
		q.Setup = func(*amqp.Channel) error { return c.Setup(ctx, queue) }
	}
	return c.Connection.Consume(ctx, q, func(ctx context.Context, s *Session) error { return f(ctx, s.Deliveries) })
}

// ExchangePublisher is a Publisher with only types of the client in its methods.
type ExchangePublisher struct{ *Publisher }

// Publish is Publisher.Publish to an exchange.
func (p ExchangePublisher) Publish(ctx context.Context, exchange, routingKey string, m amqp.Publishing) error {
	return p.Publisher.Publish(ctx, Message{Exchange: exchange, RoutingKey: routingKey, Publishing: m})
}
