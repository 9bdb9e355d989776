package cli

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// indexBroker is the indexer's Broker.
type indexBroker struct{ *rabbit.Connection }

func (b indexBroker) Consume(ctx context.Context, queue string, prefetch int, f func(context.Context, <-chan amqp.Delivery) error) error {
	return b.Connection.Consume(ctx, rabbit.ConsumeConfig{Queue: queue, Prefetch: prefetch},
		func(ctx context.Context, s *rabbit.Session) error { return f(ctx, s.Deliveries) })
}

// indexPublisher is the indexer's Publisher.
type indexPublisher struct{ *rabbit.Publisher }

func (p indexPublisher) Publish(ctx context.Context, exchange, routingKey string, m amqp.Publishing) error {
	return p.Publisher.Publish(ctx, rabbit.Message{Exchange: exchange, RoutingKey: routingKey, Publishing: m})
}
