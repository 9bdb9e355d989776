package outbox

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// encodeProperties returns the properties and headers of a message as JSON that keeps every
// type and value.
func encodeProperties(e schemas.Envelope) ([]byte, error) {
	if err := e.Headers.Validate(); err != nil {
		return nil, fmt.Errorf("its headers cannot be published: %w", err)
	}
	p := e.Properties
	table := amqp.Table{}
	for name, text := range texts(&p) {
		if *text != "" {
			table[name] = *text
		}
	}
	if p.DeliveryMode != 0 {
		table["delivery_mode"] = p.DeliveryMode
	}
	if p.Priority != 0 {
		table["priority"] = p.Priority
	}
	if !p.Timestamp.IsZero() {
		table["timestamp"] = p.Timestamp
	}
	if len(e.Headers) > 0 {
		table["headers"] = e.Headers
	}
	return tablejson.Append(nil, table), nil
}

// texts returns the properties that are texts, by name.
func texts(p *schemas.Properties) map[string]*string {
	return map[string]*string{
		"content_type": &p.ContentType, "content_encoding": &p.ContentEncoding, "correlation_id": &p.CorrelationID,
		"reply_to": &p.ReplyTo, "expiration": &p.Expiration, "message_id": &p.MessageID, "type": &p.Type,
		"user_id": &p.UserID, "app_id": &p.AppID,
	}
}

// decodeProperties sets the properties and headers of a message.
func decodeProperties(e *schemas.Envelope, text string) error {
	table, err := tablejson.Parse([]byte(text))
	if err != nil {
		return fmt.Errorf("reading the properties of a message: %w", err)
	}
	for name, property := range texts(&e.Properties) {
		*property, _ = table[name].(string)
	}
	e.Properties.DeliveryMode, _ = table["delivery_mode"].(uint8)
	e.Properties.Priority, _ = table["priority"].(uint8)
	e.Properties.Timestamp, _ = table["timestamp"].(time.Time)
	e.Headers, _ = table["headers"].(amqp.Table)
	return nil
}
