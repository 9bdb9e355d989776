package transport

import (
	"fmt"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// EnvelopeKey is the metadata key of the parts of an envelope that plain metadata cannot
// represent. It is never published.
const EnvelopeKey = "_watership_envelope"

const defaultUUIDHeader = wamqp.DefaultMessageUUIDHeaderKey

// Marshaler is a watermill-amqp Marshaler that loses nothing and accepts every delivery.
// It works with this package's transport and with watermill-amqp's, whose own marshaler
// drops properties and refuses headers that are not strings.
//
// String headers are metadata. Everything else (headers of other types, the
// properties, exchange and routing key) is one metadata value under EnvelopeKey,
// so that it survives message.Copy. Marshal of a message from Unmarshal returns the
// message with its current payload, UUID and metadata, and without CC and BCC: RabbitMQ
// would route it, with the rights of the current publisher, to queues that the first
// publisher chose (https://www.rabbitmq.com/docs/sender-selected).
//
// The UUID is the header that watermill-amqp uses; else the message id property; else
// empty. Marshal sets both for a message that is new or whose UUID was changed.
//
// The zero value is ready to use.
type Marshaler struct {
	// NotPersistent leaves the delivery mode of new messages unset: they do not
	// survive a restart of the broker, and cost less.
	NotPersistent bool

	// UUIDHeader is the header of the message UUID, "" for watermill-amqp's.
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
	return m.NewMessage(schemas.FromDelivery(d)), nil
}

// NewMessage returns the message that Unmarshal returns for a delivery of the envelope.
func (m Marshaler) NewMessage(e schemas.Envelope) *message.Message {
	msg := message.NewMessage(m.uuid(e), e.Body)
	msg.Metadata = make(message.Metadata, len(e.Headers)+1)
	var rest amqp.Table
	for key, value := range e.Headers {
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
	var room [512]byte
	msg.Metadata[EnvelopeKey] = string(appendEnvelope(room[:0], &e, rest))
	return msg
}

func (m Marshaler) uuid(e schemas.Envelope) string {
	if id, ok := e.Headers[m.header()].(string); ok {
		return id
	}
	return e.Properties.MessageID
}

// Marshal fails only if the metadata under EnvelopeKey was tampered with.
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

// envelope returns the envelope from the metadata, without string headers, or a new one.
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
	if m.uuid(e) != msg.UUID {
		m.identify(&e, msg.UUID)
	}
	return e, nil
}

// shortstrMax is the maximum length of a property in bytes; a longer id is only a header.
const shortstrMax = 255

func (m Marshaler) identify(e *schemas.Envelope, uuid string) {
	e.Headers[m.header()] = uuid
	if len(uuid) <= shortstrMax {
		e.Properties.MessageID = uuid
	}
}

// EnvelopeOf returns the envelope from a message's metadata, with its current string
// headers and payload; false for a message that did not come from Unmarshal. It is for
// messages without their context; otherwise schemas.FromContext is cheaper.
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
