package amqp

import (
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// Names in the metadata value under EnvelopeKey. They live in one process, or
// travel where a stock marshaler sends the metadata on, so they do not change.
const (
	keptExchange   = "exchange"
	keptKey        = "routing_key"
	keptProperties = "properties"
	keptHeaders    = "headers"
)

// propertyTable keeps the properties that are set, each with its own type.
func propertyTable(p schemas.Properties) amqp091.Table {
	t := amqp091.Table{}
	for _, text := range texts(&p) {
		if *text.value != "" {
			t[text.name] = *text.value
		}
	}
	if p.DeliveryMode != 0 {
		t["delivery_mode"] = p.DeliveryMode
	}
	if p.Priority != 0 {
		t["priority"] = p.Priority
	}
	if !p.Timestamp.IsZero() {
		t["timestamp"] = p.Timestamp
	}
	return t
}

func keptEnvelope(kept amqp091.Table) schemas.Envelope {
	var e schemas.Envelope
	e.Exchange, _ = kept[keptExchange].(string)
	e.RoutingKey, _ = kept[keptKey].(string)
	e.Headers, _ = kept[keptHeaders].(amqp091.Table)
	if e.Headers == nil {
		e.Headers = amqp091.Table{}
	}
	t, _ := kept[keptProperties].(amqp091.Table)
	for _, text := range texts(&e.Properties) {
		*text.value, _ = t[text.name].(string)
	}
	e.Properties.DeliveryMode, _ = t["delivery_mode"].(uint8)
	e.Properties.Priority, _ = t["priority"].(uint8)
	e.Properties.Timestamp, _ = t["timestamp"].(time.Time)
	return e
}

type text struct {
	name  string
	value *string
}

func texts(p *schemas.Properties) [9]text {
	return [9]text{
		{"content_type", &p.ContentType},
		{"content_encoding", &p.ContentEncoding},
		{"correlation_id", &p.CorrelationID},
		{"reply_to", &p.ReplyTo},
		{"expiration", &p.Expiration},
		{"message_id", &p.MessageID},
		{"type", &p.Type},
		{"user_id", &p.UserID},
		{"app_id", &p.AppID},
	}
}
