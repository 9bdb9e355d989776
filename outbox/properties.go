package outbox

import (
	"cmp"
	"fmt"

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
	for name, property := range texts(&e.Properties) {
		err = cmp.Or(err, set(table, name, property))
	}
	p := &e.Properties
	err = cmp.Or(err, set(table, "delivery_mode", &p.DeliveryMode), set(table, "priority", &p.Priority), set(table, "timestamp", &p.Timestamp), set(table, "headers", &e.Headers))
	if err != nil {
		return fmt.Errorf("reading the properties of a message: %w", err)
	}
	return nil
}

// set sets a property that a table has.
func set[T any](table amqp.Table, name string, property *T) error {
	value, has := table[name]
	if !has {
		return nil
	}
	typed, is := value.(T)
	if !is {
		return fmt.Errorf("%s is of type %T, expected %T", name, value, *property)
	}
	*property = typed
	return nil
}
