package pipeline

import (
	"context"
	"maps"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// givenTo is what a handler gets of a message: a copy as first published, in
// its context and in its metadata. It shares nothing with the envelope that is
// tried again, and has no headers of ours, so that handlers do not copy those to
// what they publish.
func givenTo(ctx context.Context, arrived *message.Message, e schemas.Envelope) *message.Message {
	e = e.Clone()
	given := message.NewMessage(arrived.UUID, e.Body)
	if travelled(arrived) {
		given, _ = transport.Marshaler{}.Unmarshal(delivery(e)) // never fails
	} else {
		maps.Copy(given.Metadata, arrived.Metadata)
	}
	given.SetContext(schemas.NewContext(ctx, e))
	return given
}

// travelled says whether a message carries headers of ours.
func travelled(msg *message.Message) bool {
	arrived, _ := schemas.FromContext(msg.Context())
	for name := range arrived.Headers {
		if strings.HasPrefix(name, "watership-") {
			return true
		}
	}
	return false
}

// delivery is how an envelope arrived first.
func delivery(e schemas.Envelope) amqp.Delivery {
	p := e.Properties
	return amqp.Delivery{
		Exchange: e.Exchange, RoutingKey: e.RoutingKey, Headers: e.Headers, Body: e.Body,
		ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationID, ReplyTo: p.ReplyTo, Expiration: p.Expiration,
		MessageId: p.MessageID, Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserID, AppId: p.AppID,
	}
}
