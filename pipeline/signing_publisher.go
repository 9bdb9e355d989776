package pipeline

import (
	"context"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// signing is a publisher that signs the states of messages.
type signing struct {
	publisher
	verifier *schemas.Verifier
}

func (s signing) Publish(ctx context.Context, m rabbit.Message) error {
	m.Publishing = s.verifier.Sign(m.Exchange, m.RoutingKey, m.Publishing)
	return s.publisher.Publish(ctx, m)
}
