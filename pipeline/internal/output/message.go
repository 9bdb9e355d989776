// Package output completes the messages that handlers return, and publishes them: a queue that
// does not confirm does not block others, and holds the messages that wait for it.
package output

import (
	"fmt"
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/handler/outgoing"
	"github.com/watershipmq/watership/internal/rabbit/tracing"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// headerStockUUID is the header of a message's UUID in watermill-amqp. Copied from
// another message it would be the UUID of that one.
const headerStockUUID = "_watermill_message_uuid"

// NewMessage returns a message for Completion.Envelope with an exchange, a routing key, properties
// and headers.
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

// Completion completes the messages that the handler of a queue returns.
type Completion struct {
	Queue                string
	Exchange, RoutingKey string // of messages that name none
	Causation            string // header that names the message being handled
	NewID                func() string
}

// Envelope returns the message to publish for the ordinal'th, from 0, that the handler returned
// for the parent.
func (c Completion) Envelope(msg *message.Message, parent wire.VerifiedState, ordinal int) (schemas.Envelope, error) {
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
		e.Exchange, e.RoutingKey = c.Exchange, c.RoutingKey
	}
	if e.Exchange == "" && e.RoutingKey == "" {
		return e, fmt.Errorf("outgoing message %d names no exchange and the route of queue %q has none to publish to", ordinal+1, c.Queue)
	}
	e.Headers = e.PublisherHeaders()
	withoutCopiedCC(e.Headers, parent.Envelope)
	if e.Properties.MessageID == "" {
		e.Properties.MessageID = c.DerivedID(parent, ordinal)
	}
	if e.Properties.DeliveryMode == 0 {
		e.Properties.DeliveryMode = amqp.Persistent
	}
	outgoing.SetCorrelation(&e, parent, c.Causation)
	tracing.Inherit(e.Headers, parent.Envelope)
	return e, nil
}

// plainEnvelope returns the envelope of a Watermill message without AMQP properties. A
// copy of the handler's input keeps its headers, each with its type, and the properties
// that describe the body.
func (c Completion) plainEnvelope(msg *message.Message) schemas.Envelope {
	e := schemas.Envelope{Exchange: c.Exchange, RoutingKey: c.RoutingKey, Body: msg.Payload}
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

// DerivedID returns the same id each time a handler repeats. If the parent has no id, the
// id is random: equal parents would get equal ids.
func (c Completion) DerivedID(parent wire.VerifiedState, ordinal int) string {
	if parent.Envelope.Properties.MessageID == "" {
		return c.NewID()
	}
	return outgoing.ID(parent.State.Fingerprint, c.Queue, ordinal, parent.State.Replay)
}
