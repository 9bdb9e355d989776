package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/transport"
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
// Payload, UUID and metadata (its headers, those that are strings) are as in any
// Watermill message, and what is in them when the handler returns counts. Exchange, key
// and properties stay with the message over SetContext and Copy.
//
// A handler may also return plain Watermill messages: they go to Route.Publish
// with their metadata as headers, and their UUID, which is another at each
// attempt, does not count. Headers of Watership's and of RabbitMQ's that were
// copied from another message are taken off, and so are the routing keys in CC and BCC
// that were copied from the message being handled.
func NewMessage(e schemas.Envelope) *message.Message {
	e.Headers = maps.Clone(e.Headers)
	delete(e.Headers, headerStockUUID)
	msg, _ := transport.Marshaler{}.Unmarshal(toDelivery(e)) // never fails
	msg.UUID = e.Properties.MessageID
	msg.Metadata[outgoingKey] = msg.Metadata[transport.EnvelopeKey]
	delete(msg.Metadata, transport.EnvelopeKey)
	return msg
}

// outgoingKey is the metadata key of what NewMessage was given. It is another than
// that of a message being handled, so that a handler which returns what it was given
// does not publish it where it came from.
const outgoingKey = "_watership_outgoing"

// outgoingEnvelope is what NewMessage was given, as the handler has changed it since; false
// where what was kept of it cannot be read.
func outgoingEnvelope(msg *message.Message) (schemas.Envelope, bool) {
	as := message.NewMessage(msg.UUID, msg.Payload)
	maps.Copy(as.Metadata, msg.Metadata)
	delete(as.Metadata, outgoingKey)
	as.Metadata[transport.EnvelopeKey] = msg.Metadata[outgoingKey]
	return transport.EnvelopeOf(as)
}

// outgoingMessages is what goes on the wire for all that a handler returned. What a handler
// returns is the handler's: a panic over it is its failure.
func (h *routeHandler) outgoingMessages(produced []*message.Message, parent schemas.VerifiedState) ([]rabbit.Message, error) {
	return recoverValue(func() (messages []rabbit.Message, err error) {
		messages = make([]rabbit.Message, len(produced))
		for i, msg := range produced {
			if msg == nil {
				return nil, fmt.Errorf("outgoing message %d of %d is nil", i+1, len(produced))
			}
			if messages[i], err = h.outgoingMessage(msg, parent, i); err != nil {
				return nil, err
			}
		}
		return messages, nil
	})
}

// outgoingMessage is what goes on the wire for one message that a handler returned.
func (h *routeHandler) outgoingMessage(msg *message.Message, parent schemas.VerifiedState, ordinal int) (rabbit.Message, error) {
	e, ok := h.envelope(msg)
	if !ok {
		return rabbit.Message{}, fmt.Errorf("outgoing message %d has metadata %s that cannot be read", ordinal+1, outgoingKey)
	}
	if e.Exchange == "" && e.RoutingKey == "" {
		return rabbit.Message{}, fmt.Errorf("outgoing message %d names no exchange and the route of queue %q has none to publish to",
			ordinal+1, h.route.Queue)
	}
	e.Headers = schemas.PublisherHeaders(e.Headers)
	withoutCopiedCC(e.Headers, parent.Envelope)
	if e.Properties.MessageID == "" {
		e.Properties.MessageID = h.derivedID(parent, ordinal)
	}
	if e.Properties.DeliveryMode == 0 {
		e.Properties.DeliveryMode = amqp.Persistent
	}
	setCorrelation(&e, parent)
	return rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}, nil
}

// envelope is what a handler said of its message; false where that cannot be read.
func (h *routeHandler) envelope(msg *message.Message) (schemas.Envelope, bool) {
	if _, made := msg.Metadata[outgoingKey]; made {
		return outgoingEnvelope(msg)
	}
	return h.plainEnvelope(msg), true
}

// setCorrelation says what an outgoing message belongs to, unless the handler has said
// so. A causation that was copied from the parent is the parent's own.
func setCorrelation(e *schemas.Envelope, parent schemas.VerifiedState) {
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
func (h *routeHandler) plainEnvelope(msg *message.Message) schemas.Envelope {
	e := schemas.Envelope{Exchange: h.route.Publish.Exchange, RoutingKey: h.route.Publish.Key, Body: msg.Payload}
	if from, copied := transport.EnvelopeOf(msg); copied {
		e.Headers = from.Headers
		delete(e.Headers, headerStockUUID)
		e.Properties.ContentType = from.Properties.ContentType
		e.Properties.ContentEncoding = from.Properties.ContentEncoding
		e.Properties.Type = from.Properties.Type
		return e
	}
	e.Headers = amqp.Table{}
	for name, value := range msg.Metadata {
		if name != transport.EnvelopeKey {
			e.Headers[name] = value
		}
	}
	return e
}

// derivedID makes a repeat of a handler recognisable. Where the parent has no
// id of its own, equal parents could not be told apart, so it is random.
func (h *routeHandler) derivedID(parent schemas.VerifiedState, ordinal int) string {
	if parent.Envelope.Properties.MessageID == "" {
		return h.newID()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%s",
		parent.State.Fingerprint, h.route.Queue, ordinal, parent.State.Replay))
	return hex.EncodeToString(sum[:16])
}
