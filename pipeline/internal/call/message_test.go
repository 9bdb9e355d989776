package call

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// A handler sees a message that was tried before as it was first published, in
// the context and in the metadata.
func TestHandlerMessageIsAsFirstPublished(t *testing.T) {
	first := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.paid", Body: []byte("x"),
		Headers:    amqp.Table{"tenant": "acme", "n": int64(1)},
		Properties: schemas.Properties{MessageID: "m", Expiration: "1000", Priority: 3},
	}
	state := schemas.State{Fingerprint: first.Fingerprint(), Queue: "orders", Attempt: 1, Message: "i"}
	wire := wire.DefaultFrameMax.Wrap(first, state)
	second, _ := transport.Marshaler{}.Unmarshal(amqp.Delivery{
		RoutingKey: "orders", Headers: wire.Headers, Body: wire.Body, MessageId: wire.MessageId,
	})
	arrived := schemas.Envelope{RoutingKey: "orders", Headers: wire.Headers, Body: wire.Body}
	second.SetContext(schemas.NewContext(t.Context(), arrived))
	copied := Message(t.Context(), second, first)
	inContext, _ := schemas.FromContext(copied.Context())
	inMetadata, _ := transport.EnvelopeOf(copied)
	for where, got := range map[string]schemas.Envelope{"context": inContext, "metadata": inMetadata} {
		if diff := cmp.Diff(first, got); diff != "" {
			t.Errorf("in the %s: %s", where, diff)
		}
	}
}
