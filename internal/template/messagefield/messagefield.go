// Package messagefield returns the values that templates of the configuration name: headers,
// fields of JSON bodies, and properties of a message.
package messagefield

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/schemas"
)

// longestValue bounds a value of a message in a URL or a header: servers accept URLs of
// 8,000 bytes (RFC 9110 §4.1), and headers of about as many.
const longestValue = 8 << 10

// Value returns a field of a message as text of one line. Its error is a *target.Problem.
func Value(e schemas.Envelope, f target.Field) (string, error) { return New(e).Value(f) }

// Message is a message of which several fields are read. It checks once whether its body is
// JSON.
type Message struct {
	envelope schemas.Envelope
	checked  bool   // whether the body is JSON
	json     []byte // the body, if it is
}

// New returns the message of an envelope.
func New(e schemas.Envelope) *Message { return &Message{envelope: e} }

// Value is the function Value for a field of the message.
func (m *Message) Value(f target.Field) (string, error) {
	text, err := m.field(f)
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", target.Missing(f)
	case len(text) > longestValue:
		return "", target.Invalid(f, "has %d bytes: expected up to %d", len(text), longestValue)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "", target.Invalid(f, "has control characters or is no UTF-8")
	}
	return text, nil
}

// field returns a field, "" if none exists.
func (m *Message) field(f target.Field) (string, error) {
	e := m.envelope
	switch {
	case f.Header != "":
		value := publisherHeader(e, f.Header)
		switch value.(type) {
		case amqp.Table, []any, []byte:
			return "", target.Invalid(f, "is a table, a list or bytes: expected text, a number or a boolean")
		}
		text, _ := HeaderText(value)
		return text, nil
	case f.Pointer != "":
		return m.bodyField(f)
	case f.Word != 0:
		return word(strings.Split(e.RoutingKey, "."), f.Word), nil
	}
	switch f.Name {
	case target.Exchange:
		return e.Exchange, nil
	case target.RoutingKey:
		return e.RoutingKey, nil
	case target.MessageID:
		return e.Properties.MessageID, nil
	case target.CorrelationID:
		return e.Properties.CorrelationID, nil
	case target.Type:
		return e.Properties.Type, nil
	}
	return "", nil
}

// word returns a word by its place from 1 on, or from -1 on for places from the end; "" if
// none exists.
func word(words []string, place int) string {
	at := place - 1
	if place < 0 {
		at = len(words) + place
	}
	if at < 0 || at >= len(words) {
		return ""
	}
	return words[at]
}

// publisherHeader is Envelope.PublisherHeaders for one header.
func publisherHeader(e schemas.Envelope, name string) any {
	value, present := e.Headers[name]
	if !present {
		return nil
	}
	e.Headers = amqp.Table{name: value}
	return e.PublisherHeaders()[name]
}

// bodyField returns a field of a JSON body. If a name occurs twice, receivers differ in
// which of its values counts, and so the message has none.
func (m *Message) bodyField(f target.Field) (string, error) {
	if !m.checked {
		m.checked = true
		if text, isText := m.envelope.BodyText(); isText {
			m.json = validJSON(text)
		}
	}
	if m.json == nil {
		return "", target.Missing(f)
	}
	value, repeated := valueAt(m.json, f.Pointer)
	switch {
	case value == nil:
		return "", target.Missing(f)
	case repeated:
		return "", target.Invalid(f, "is in the body more than once")
	case value[0] == '{' || value[0] == '[':
		return "", target.Invalid(f, "is an object or a list: expected text, a number or a boolean")
	}
	return valueText(value), nil
}

// HeaderText returns a message header as text: bytes as base64, times as RFC 3339,
// tables and arrays as JSON.
func HeaderText(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "", false
	case []byte:
		return base64.StdEncoding.EncodeToString(v), true
	case time.Time:
		return v.UTC().Format(time.RFC3339), true
	case amqp.Decimal:
		return strconv.FormatFloat(float64(v.Value)/math.Pow10(int(v.Scale)), 'f', int(v.Scale), 64), true
	case amqp.Table, []any:
		text, err := json.Marshal(v)
		return string(text), err == nil
	}
	return fmt.Sprint(value), true
}
