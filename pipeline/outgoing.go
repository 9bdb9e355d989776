package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/amqp"
	"github.com/watershipmq/watership/schemas"
)

// HeaderCausation is the header of outgoing messages that names the message
// whose handler published them: by its message id, or else by its fingerprint.
const HeaderCausation = "causation-id"

// headerStockUUID is where the stock transport keeps a message's UUID. Copied
// from another message it would name that one.
const headerStockUUID = "_watermill_message_uuid"

// NewMessage is an outgoing message with an exchange, a routing key, properties
// and headers of the handler's choice. What is zero is set when it is
// published: the message id to one that is the same each time the handler
// repeats, the correlation id to that of the message being handled or else to
// its message id, HeaderCausation, and the delivery mode to persistent.
//
// A handler may also return plain Watermill messages: they go to Route.Publish
// with their metadata as headers, and their UUID, which is another at each
// attempt, does not count. Headers of Watership's and of RabbitMQ's that were
// copied from another message are taken off.
func NewMessage(e schemas.Envelope) *message.Message {
	msg := message.NewMessage(e.Properties.MessageID, e.Body)
	msg.SetContext(context.WithValue(msg.Context(), outgoingKey{}, e))
	return msg
}

// outgoingKey is another key than that of the message being handled, so that a
// handler which returns what it was given does not publish it where it came from.
type outgoingKey struct{}

// outgoing is what goes on the wire for one message that a handler returned.
func (b *business) outgoing(msg *message.Message, parent schemas.Belief, ordinal int) (rabbit.Message, error) {
	e, chosen := msg.Context().Value(outgoingKey{}).(schemas.Envelope)
	if !chosen {
		e = b.plainEnvelope(msg)
	}
	if e.Exchange == "" && e.RoutingKey == "" {
		return rabbit.Message{}, fmt.Errorf("outgoing message %d names no exchange and the route of queue %q has none to publish to",
			ordinal+1, b.route.Queue)
	}
	e.Headers = schemas.PublisherHeaders(e.Headers)
	if e.Properties.MessageID == "" {
		e.Properties.MessageID = b.derivedID(parent, ordinal)
	}
	if e.Properties.DeliveryMode == 0 {
		e.Properties.DeliveryMode = amqp091.Persistent
	}
	relate(&e, parent)
	return rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}, nil
}

// relate says what an outgoing message belongs to, unless the handler has said
// so. A causation that was copied from the parent is the parent's own.
func relate(e *schemas.Envelope, parent schemas.Belief) {
	p := parent.Envelope.Properties
	if e.Properties.CorrelationID == "" {
		e.Properties.CorrelationID = p.CorrelationID
	}
	if e.Properties.CorrelationID == "" {
		e.Properties.CorrelationID = p.MessageID
	}
	said, set := e.Headers[HeaderCausation].(string)
	of, copied := parent.Envelope.Headers[HeaderCausation].(string)
	if set && !(copied && said == of) {
		return
	}
	e.Headers[HeaderCausation] = parent.State.Fingerprint
	if p.MessageID != "" {
		e.Headers[HeaderCausation] = p.MessageID
	}
}

// plainEnvelope is the envelope of a Watermill message that says nothing of
// AMQP. Of one that was copied from what the handler was given it keeps the
// headers, each with its type, and what the properties say of the body.
func (b *business) plainEnvelope(msg *message.Message) schemas.Envelope {
	e := schemas.Envelope{Exchange: b.route.Publish.Exchange, RoutingKey: b.route.Publish.Key, Body: msg.Payload}
	if from, copied := amqp.EnvelopeOf(msg); copied {
		e.Headers = from.Headers
		delete(e.Headers, headerStockUUID)
		e.Properties.ContentType = from.Properties.ContentType
		e.Properties.ContentEncoding = from.Properties.ContentEncoding
		e.Properties.Type = from.Properties.Type
		return e
	}
	e.Headers = amqp091.Table{}
	for name, value := range msg.Metadata {
		if name != amqp.EnvelopeKey {
			e.Headers[name] = value
		}
	}
	return e
}

// derivedID makes a repeat of a handler recognisable. Where the parent has no
// id of its own, equal parents could not be told apart, so it is random.
func (b *business) derivedID(parent schemas.Belief, ordinal int) string {
	if parent.Envelope.Properties.MessageID == "" {
		return b.newID()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%s",
		parent.State.Fingerprint, b.route.Queue, ordinal, parent.State.Replay))
	return hex.EncodeToString(sum[:16])
}
