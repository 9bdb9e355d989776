package pipeline

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/tracing"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/output"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// HeaderCausation is the header of outgoing messages that names the message
// whose handler published them: by its message id, or else by its fingerprint.
const HeaderCausation = "causation-id"

// NewMessage returns an outgoing message with an exchange, a routing key, properties and
// headers. Zero fields are set when it is published: the message id to one that is the
// same each time the handler repeats, the correlation id to the one of the message being
// handled or else to its message id, HeaderCausation, the headers of its W3C trace context, and the delivery mode to persistent. A message without
// exchange and routing key goes to Route.Publish.
//
// Payload, UUID and metadata (its headers with string values) are as in any Watermill
// message, and their values when the handler returns count. Exchange, key and properties
// stay with the message over SetContext and Copy.
//
// A handler may also return plain Watermill messages: they are published to Route.Publish
// with their metadata as headers, and their UUID, which is another at each attempt, does
// not count. Headers of Watership and of RabbitMQ that were copied from another message
// are removed, and so are the routing keys in CC and BCC that were copied from the
// message being handled.
func NewMessage(e schemas.Envelope) *message.Message { return output.NewMessage(e) }

// outgoingMessages returns the AMQP messages for the result of a handler. A panic on a
// message that the handler returned is a failure of the handler.
func (h *routeHandler) outgoingMessages(ctx context.Context, produced []*message.Message, parent wire.VerifiedState) (messages []rabbit.Message, spans []*tracing.Span, err error) {
	envelopes, err := usercode.Recover(func() ([]schemas.Envelope, error) {
		envelopes := make([]schemas.Envelope, len(produced))
		for i, msg := range produced {
			var err error
			if envelopes[i], err = h.outgoingMessage(msg, parent, i); err != nil {
				return nil, err
			}
		}
		return envelopes, nil
	})
	handled := tracing.Step{Envelope: parent.Envelope, State: parent.State}
	messages, spans = make([]rabbit.Message, 0, len(envelopes)), make([]*tracing.Span, 0, len(envelopes))
	for _, e := range envelopes {
		spans = append(spans, h.tracer.Publish(ctx, e, handled))
		messages = append(messages, rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()})
	}
	return messages, spans, err
}

// outgoingMessage returns the message to publish for one that a handler returned.
func (h *routeHandler) outgoingMessage(msg *message.Message, parent wire.VerifiedState, ordinal int) (schemas.Envelope, error) {
	return completion(h.route.Queue, h.route.Publish, h.newID).Envelope(msg, parent, ordinal)
}

// OutgoingEnvelope returns the message that a pipeline publishes for a message that a handler
// returned as the ordinal'th, from 0, with all that NewMessage leaves to the publish. The
// context is of the message being handled. A message that names neither exchange nor routing
// key goes to the binding, as of Route.Publish.
func OutgoingEnvelope(ctx context.Context, returned *message.Message, ordinal int, to Binding) (schemas.Envelope, error) {
	parent, _ := schemas.FromContext(ctx)
	attempt := retry.AttemptFrom(ctx)
	state := schemas.State{Fingerprint: attempt.Fingerprint, Replay: attempt.Replay}
	return completion(attempt.Queue, to, watermill.NewULID).Envelope(returned, wire.VerifiedState{Envelope: parent, State: state}, ordinal)
}

func completion(queue string, to Binding, newID func() string) output.Completion {
	return output.Completion{Queue: queue, Exchange: to.Exchange, RoutingKey: to.Key, Causation: HeaderCausation, NewID: newID}
}
