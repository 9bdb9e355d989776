// Package schemas defines Watership's data: the envelope of a message, the state in its
// headers, the events of its life, and the document of each event in the store. For
// programs that read documents from Elasticsearch themselves, this is all they need:
//
//	event, err := schemas.ParseDocument(source) // the _source of a hit
//	if err != nil {
//		return err
//	}
//	fmt.Println(event.Action, event.Envelope.RoutingKey, string(event.Envelope.Body))
//
// It does no I/O. To search
// and read events use the stores of package eventstore; to send them again, package
// replayer.
package schemas

import (
	"bytes"
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
)

// Envelope is a message with all properties that are needed to publish it again
// unchanged.
//
// An absent property and an empty one are equal here, since the AMQP client does
// not distinguish them. A consumer never receives BCC, so it cannot be kept.
type Envelope struct {
	Exchange   string // "" is the default exchange
	RoutingKey string
	Properties Properties
	Headers    amqp.Table
	Body       []byte

	// Redacted is whether values were replaced: the message is not the one that was published, and
	// must not be sent to a consumer. Publishing marks it, and
	// Watership refuses to publish a message with the mark.
	Redacted bool
}

// Properties are the properties of the AMQP basic class (AMQP 0-9-1 §1.8.1) without
// the headers. The zero value of each property means that it is absent.
type Properties struct {
	ContentType     string
	ContentEncoding string
	DeliveryMode    uint8 // 1 transient, 2 persistent
	Priority        uint8
	CorrelationID   string
	ReplyTo         string
	Expiration      string // milliseconds, as text
	MessageID       string
	Timestamp       time.Time // whole seconds
	Type            string
	UserID          string
	AppID           string
}

// FromDelivery returns the envelope of a delivery. The envelope shares headers and
// body with the delivery.
func FromDelivery(d amqp.Delivery) Envelope {
	return Envelope{
		Exchange:   d.Exchange,
		RoutingKey: d.RoutingKey,
		Properties: Properties{
			ContentType:     d.ContentType,
			ContentEncoding: d.ContentEncoding,
			DeliveryMode:    d.DeliveryMode,
			Priority:        d.Priority,
			CorrelationID:   d.CorrelationId,
			ReplyTo:         d.ReplyTo,
			Expiration:      d.Expiration,
			MessageID:       d.MessageId,
			Timestamp:       d.Timestamp,
			Type:            d.Type,
			UserID:          d.UserId,
			AppID:           d.AppId,
		},
		Headers: d.Headers,
		Body:    d.Body,
	}
}

// Publishing converts the envelope to the client's type, which has no exchange and
// no routing key. It shares headers and body with the envelope.
func (e Envelope) Publishing() amqp.Publishing {
	p := e.Properties
	if e.Redacted {
		e.Headers = header.Withhold(e.Headers)
	}
	return amqp.Publishing{
		Headers:         e.Headers,
		ContentType:     p.ContentType,
		ContentEncoding: p.ContentEncoding,
		DeliveryMode:    p.DeliveryMode,
		Priority:        p.Priority,
		CorrelationId:   p.CorrelationID,
		ReplyTo:         p.ReplyTo,
		Expiration:      p.Expiration,
		MessageId:       p.MessageID,
		Timestamp:       p.Timestamp,
		Type:            p.Type,
		UserId:          p.UserID,
		AppId:           p.AppID,
		Body:            e.Body,
	}
}

// PublisherHeaders returns a copy of the headers with only those that a publisher may
// set. It omits the headers of Watership and the headers that RabbitMQ itself writes,
// which have no meaning in another message.
func (e Envelope) PublisherHeaders() amqp.Table { return header.Without(e.Headers, header.IsState, 0) }

// Clone returns a copy that shares no headers, nested ones included, and no body
// with e.
func (e Envelope) Clone() Envelope {
	e.Headers = cloneTable(e.Headers)
	e.Body = bytes.Clone(e.Body)
	return e
}

func cloneTable(table amqp.Table) amqp.Table {
	if table == nil {
		return nil
	}
	clone := make(amqp.Table, len(table))
	for name, value := range table {
		clone[name] = cloneField(value)
	}
	return clone
}

func cloneField(value any) any {
	switch v := value.(type) {
	case amqp.Table:
		return cloneTable(v)
	case []byte:
		return bytes.Clone(v)
	case []any:
		clone := make([]any, len(v))
		for i, element := range v {
			clone[i] = cloneField(element)
		}
		return clone
	}
	return value // of a type without references
}

type envelopeKey struct{}

// NewContext returns a context that carries the envelope of the message being handled.
func NewContext(ctx context.Context, e Envelope) context.Context {
	return context.WithValue(ctx, envelopeKey{}, e)
}

// FromContext returns the envelope of the message being handled, and whether there is one.
func FromContext(ctx context.Context) (Envelope, bool) {
	e, ok := ctx.Value(envelopeKey{}).(Envelope)
	return e, ok
}
