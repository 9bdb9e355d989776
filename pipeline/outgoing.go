package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// NewMessage is an outgoing message with an exchange, a routing key, properties
// and headers of the handler's choice. The envelope's message id stays where it
// is set; else one is given that is the same each time the handler repeats.
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
	if e.Properties.MessageID == "" {
		e.Properties.MessageID = b.derivedID(parent, ordinal)
	}
	if e.Properties.DeliveryMode == 0 {
		e.Properties.DeliveryMode = amqp.Persistent
	}
	return rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}, nil
}

// plainEnvelope is the envelope of a Watermill message that says nothing of AMQP.
func (b *business) plainEnvelope(msg *message.Message) schemas.Envelope {
	e := schemas.Envelope{Exchange: b.route.Publish.Exchange, RoutingKey: b.route.Publish.Key, Body: msg.Payload}
	if len(msg.Metadata) > 0 {
		e.Headers = amqp.Table{}
	}
	for name, value := range msg.Metadata {
		e.Headers[name] = value
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
