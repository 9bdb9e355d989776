package pipeline

import (
	"context"
	"fmt"
	"maps"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/outgoing"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/usercode"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// HeaderCausation is the header of outgoing messages that names the message
// whose handler published them: by its message id, or else by its fingerprint.
const HeaderCausation = "causation-id"

// headerStockUUID is the header of a message's UUID in watermill-amqp. Copied from
// another message it would be the UUID of that one.
const headerStockUUID = "_watermill_message_uuid"

// NewMessage returns an outgoing message with an exchange, a routing key, properties and
// headers. Zero fields are set when it is published: the message id to one that is the
// same each time the handler repeats, the correlation id to the one of the message being
// handled or else to its message id, HeaderCausation, and the delivery mode to persistent.
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
func NewMessage(e schemas.Envelope) *message.Message {
	e.Headers = maps.Clone(e.Headers)
	delete(e.Headers, headerStockUUID)
	msg := transport.Marshaler{}.NewMessage(e)
	msg.UUID = e.Properties.MessageID
	msg.Metadata[outgoingKey] = msg.Metadata[transport.EnvelopeKey]
	delete(msg.Metadata, transport.EnvelopeKey)
	return msg
}

// outgoingKey is the metadata key of the envelope in an outgoing message. It differs from
// the key of a message being handled, so that a handler which returns its input does not
// publish it to the exchange that it came from.
const outgoingKey = "_watership_outgoing"

// outgoingEnvelope returns the envelope of NewMessage with the handler's changes; false if
// its metadata cannot be parsed.
func outgoingEnvelope(msg *message.Message) (schemas.Envelope, bool) {
	as := message.NewMessage(msg.UUID, msg.Payload)
	maps.Copy(as.Metadata, msg.Metadata)
	delete(as.Metadata, outgoingKey)
	as.Metadata[transport.EnvelopeKey] = msg.Metadata[outgoingKey]
	return transport.EnvelopeOf(as)
}

// outgoingMessages returns the AMQP messages for the result of a handler. A panic on a
// message that the handler returned is a failure of the handler.
func (h *routeHandler) outgoingMessages(produced []*message.Message, parent schemas.VerifiedState) ([]rabbit.Message, error) {
	return usercode.Recover(func() ([]rabbit.Message, error) {
		messages := make([]rabbit.Message, len(produced))
		for i, msg := range produced {
			e, err := h.outgoingMessage(msg, parent, i)
			if err != nil {
				return nil, err
			}
			messages[i] = rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}
		}
		return messages, nil
	})
}

// outgoingMessage returns the message to publish for one that a handler returned.
func (h *routeHandler) outgoingMessage(msg *message.Message, parent schemas.VerifiedState, ordinal int) (schemas.Envelope, error) {
	return completion{h.route.Queue, h.route.Publish, h.newID}.envelope(msg, parent, ordinal)
}

// OutgoingEnvelope returns the message that a pipeline publishes for a message that a handler
// returned as the ordinal'th, from 0, with all that NewMessage leaves to the publish. The
// context is of the message being handled. A message that names no exchange goes to the
// binding, as of Route.Publish.
func OutgoingEnvelope(ctx context.Context, returned *message.Message, ordinal int, to Binding) (schemas.Envelope, error) {
	parent, _ := schemas.FromContext(ctx)
	attempt := retry.AttemptFrom(ctx)
	state := schemas.State{Fingerprint: attempt.Fingerprint, Replay: attempt.Replay}
	return completion{attempt.Queue, to, watermill.NewULID}.envelope(returned, schemas.VerifiedState{Envelope: parent, State: state}, ordinal)
}

// completion completes the messages that the handler of a queue returns.
type completion struct {
	queue   string
	publish Binding
	newID   func() string
}

func (c completion) envelope(msg *message.Message, parent schemas.VerifiedState, ordinal int) (schemas.Envelope, error) {
	if msg == nil {
		return schemas.Envelope{}, fmt.Errorf("outgoing message %d is nil", ordinal+1)
	}
	e, isRead := c.plainEnvelope(msg), true
	if _, made := msg.Metadata[outgoingKey]; made {
		e, isRead = outgoingEnvelope(msg)
	}
	if !isRead {
		return e, fmt.Errorf("outgoing message %d has metadata %s that cannot be read", ordinal+1, outgoingKey)
	}
	if e.Exchange == "" && e.RoutingKey == "" {
		return e, fmt.Errorf("outgoing message %d names no exchange and the route of queue %q has none to publish to", ordinal+1, c.queue)
	}
	e.Headers = e.PublisherHeaders()
	outgoing.RemoveCopiedCC(e.Headers, parent.Envelope)
	if e.Properties.MessageID == "" {
		e.Properties.MessageID = c.derivedID(parent, ordinal)
	}
	if e.Properties.DeliveryMode == 0 {
		e.Properties.DeliveryMode = amqp.Persistent
	}
	outgoing.SetCorrelation(&e, parent, HeaderCausation)
	return e, nil
}

// plainEnvelope returns the envelope of a Watermill message without AMQP properties. A
// copy of the handler's input keeps its headers, each with its type, and the properties
// that describe the body.
func (c completion) plainEnvelope(msg *message.Message) schemas.Envelope {
	e := schemas.Envelope{Exchange: c.publish.Exchange, RoutingKey: c.publish.Key, Body: msg.Payload}
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

// derivedID returns the same id each time a handler repeats. If the parent has no id, the
// id is random: equal parents would get equal ids.
func (c completion) derivedID(parent schemas.VerifiedState, ordinal int) string {
	if parent.Envelope.Properties.MessageID == "" {
		return c.newID()
	}
	return outgoing.ID(parent.State.Fingerprint, c.queue, ordinal, parent.State.Replay)
}
