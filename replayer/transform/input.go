package transform

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"time"
	"unicode/utf8"

	"github.com/itchyny/gojq"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// JSON returns the input of a program for a message, as JSON.
func JSON(e schemas.Envelope) (json.RawMessage, error) { return gojq.Marshal(input(e)) }

// input returns the input of a program for a message.
func input(e schemas.Envelope) map[string]any {
	in := map[string]any{
		"exchange": e.Exchange, "routing_key": e.RoutingKey,
		"headers": tableValue(e.PublisherHeaders()), "properties": propertyValues(e.Properties),
	}
	member, value := bodyValue(e.Body)
	in[member] = value
	return in
}

// The members with the body. A message has one of them.
const (
	bodyJSON   = "body"
	bodyText   = "body_text"
	bodyBase64 = "body_base64"
)

func bodyValue(body []byte) (member string, value any) {
	if !utf8.Valid(body) {
		return bodyBase64, base64.StdEncoding.EncodeToString(body)
	}
	decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff"))))
	decoder.UseNumber() // since a float64 does not have every number
	if decoder.Decode(&value) == nil {
		if _, err := decoder.Token(); err == io.EOF {
			return bodyJSON, value
		}
	}
	return bodyText, string(body)
}

// propertyValues returns the properties that a message has, by their names in AMQP 0-9-1
// §1.8.1.
func propertyValues(p schemas.Properties) map[string]any {
	values := map[string]any{}
	for name, text := range map[string]string{
		"content_type": p.ContentType, "content_encoding": p.ContentEncoding, "correlation_id": p.CorrelationID,
		"reply_to": p.ReplyTo, "expiration": p.Expiration, "message_id": p.MessageID, "type": p.Type,
		"user_id": p.UserID, "app_id": p.AppID,
	} {
		if text != "" {
			values[name] = text
		}
	}
	if p.DeliveryMode != 0 {
		values["delivery_mode"] = int(p.DeliveryMode)
	}
	if p.Priority != 0 {
		values["priority"] = int(p.Priority)
	}
	if !p.Timestamp.IsZero() {
		values["timestamp"] = timeText(p.Timestamp)
	}
	return values
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func tableValue(table amqp.Table) map[string]any {
	object := make(map[string]any, len(table))
	for name, value := range table {
		object[name] = headerValue(value)
	}
	return object
}

// headerValue returns a value of an AMQP table as a program sees it. A number that JSON does
// not have is null.
func headerValue(value any) any {
	switch v := value.(type) {
	case []byte:
		return string(v)
	case time.Time:
		return timeText(v)
	case amqp.Table:
		return tableValue(v)
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = headerValue(element)
		}
		return list
	case amqp.Decimal:
		return float64(v.Value) / math.Pow10(int(v.Scale))
	case float32:
		return finite(float64(v))
	case float64:
		return finite(v)
	case nil, bool, string:
		return v
	}
	return wholeNumber(value)
}

func finite(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

func wholeNumber(value any) any {
	switch v := value.(type) {
	case int8:
		return int(v)
	case uint8:
		return int(v)
	case int16:
		return int(v)
	case uint16:
		return int(v)
	case int32:
		return int(v)
	case uint32:
		return int(v)
	case int64:
		return int(v)
	case int:
		return v
	}
	return nil
}
