package transport

import (
	"fmt"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// EnvelopeKey is the metadata key under which Marshaler keeps what plain metadata
// cannot hold. It never goes on the wire.
const EnvelopeKey = "_watership_envelope"

const defaultUUIDHeader = wamqp.DefaultMessageUUIDHeaderKey

// Marshaler is a watermill-amqp Marshaler that loses nothing and cannot fail on
// what comes in: it works with this package's transport and with the stock one,
// whose own marshaler drops properties and refuses any header that is no string.
//
// String headers are metadata. Everything else (headers of other types, the
// properties, exchange and routing key) is one metadata value under EnvelopeKey,
// so that it survives message.Copy. Marshal of what Unmarshal returned is the
// message as it was, with the payload, the UUID and the metadata that it has by then,
// and without CC and BCC: RabbitMQ would send it, with the rights of who passes it on,
// to queues that its publisher chose (https://www.rabbitmq.com/docs/sender-selected).
//
// The UUID is the header that the stock marshaler uses; else the message id
// property; else empty. Marshal sets both for a message that is new or whose UUID
// was changed.
//
// The zero value is ready to use.
type Marshaler struct {
	// NotPersistent leaves the delivery mode of new messages unset: they do not
	// survive a restart of the broker, and cost less.
	NotPersistent bool

	// UUIDHeader is the header of the message UUID, "" for the stock one.
	UUIDHeader string
}

var _ wamqp.Marshaler = Marshaler{}

func (m Marshaler) header() string {
	if m.UUIDHeader != "" {
		return m.UUIDHeader
	}
	return defaultUUIDHeader
}

// Unmarshal never returns an error.
func (m Marshaler) Unmarshal(d amqp.Delivery) (*message.Message, error) {
	msg := message.NewMessage(m.uuid(d), d.Body)
	msg.Metadata = make(message.Metadata, len(d.Headers)+1)
	var rest amqp.Table
	for key, value := range d.Headers {
		text, ok := value.(string)
		if ok && key != EnvelopeKey && key != m.header() {
			msg.Metadata[key] = text
			continue
		}
		if rest == nil {
			rest = amqp.Table{}
		}
		rest[key] = value
	}
	envelope := schemas.FromDelivery(d)
	var room [512]byte
	msg.Metadata[EnvelopeKey] = string(appendEnvelope(room[:0], &envelope, rest))
	return msg, nil
}

func (m Marshaler) uuid(d amqp.Delivery) string {
	if id, ok := d.Headers[m.header()].(string); ok {
		return id
	}
	return d.MessageId
}

// Marshal fails only where the metadata under EnvelopeKey was tampered with.
func (m Marshaler) Marshal(msg *message.Message) (amqp.Publishing, error) {
	envelope, err := m.envelope(msg)
	if err != nil {
		return amqp.Publishing{}, err
	}
	for key, value := range msg.Metadata {
		if key != EnvelopeKey {
			envelope.Headers[key] = value
		}
	}
	if _, received := msg.Metadata[EnvelopeKey]; received {
		delete(envelope.Headers, "CC")
		delete(envelope.Headers, "BCC")
	}
	envelope.Body = msg.Payload
	return envelope.Publishing(), nil
}

// envelope is what the message was received as, without its string headers, or
// that of a new message.
func (m Marshaler) envelope(msg *message.Message) (schemas.Envelope, error) {
	text, received := msg.Metadata[EnvelopeKey]
	if !received {
		e := schemas.Envelope{Headers: amqp.Table{}}
		if !m.NotPersistent {
			e.Properties.DeliveryMode = amqp.Persistent
		}
		m.identify(&e, msg.UUID)
		return e, nil
	}
	e, err := parseEnvelope(text)
	if err != nil {
		return schemas.Envelope{}, fmt.Errorf("metadata %s: %w", EnvelopeKey, err)
	}
	if m.uuid(amqp.Delivery{Headers: e.Headers, MessageId: e.Properties.MessageID}) != msg.UUID {
		m.identify(&e, msg.UUID)
	}
	return e, nil
}

// shortstrMax is the most bytes that a property holds; a longer id travels as header only.
const shortstrMax = 255

func (m Marshaler) identify(e *schemas.Envelope, uuid string) {
	e.Headers[m.header()] = uuid
	if len(uuid) <= shortstrMax {
		e.Properties.MessageID = uuid
	}
}

// EnvelopeOf is the envelope that Marshaler kept in the metadata, with the string
// headers and the payload that the message has now; false for a message that did
// not come out of Unmarshal. It is for where the message's context is gone; else
// schemas.FromContext is cheaper.
func EnvelopeOf(msg *message.Message) (schemas.Envelope, bool) {
	if _, ok := msg.Metadata[EnvelopeKey]; !ok {
		return schemas.Envelope{}, false
	}
	m := Marshaler{}
	e, err := m.envelope(msg)
	if err != nil {
		return schemas.Envelope{}, false
	}
	for key, value := range msg.Metadata {
		if key != EnvelopeKey {
			e.Headers[key] = value
		}
	}
	e.Body = msg.Payload
	return e, true
}
