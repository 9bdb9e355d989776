package pipeline

import (
	"context"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
)

// signingPublisher is a publisher that signs the states of messages.
type signingPublisher struct {
	publisher
	verifier *wire.Verifier
}

func (s signingPublisher) Publish(ctx context.Context, m rabbit.Message) error {
	m.Publishing = s.verifier.Sign(m.Exchange, m.RoutingKey, m.Publishing)
	return s.publisher.Publish(ctx, m)
}
