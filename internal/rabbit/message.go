package rabbit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/amqpstream"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
)

// Message is an argument of Publish.
type Message struct {
	Exchange   string // "" is the default exchange
	RoutingKey string // at most 255 bytes
	Optional   bool   // publish without mandatory: no UnroutableError if no queue matches
	Publishing amqp.Publishing
}

// AMQP reply codes of messages that this package refuses itself (AMQP 0-9-1 §1.2).
const (
	codeFrame    = amqp.FrameError    // 501
	codeSyntax   = amqp.SyntaxError   // 502
	codeInternal = amqp.InternalError // 541, RabbitMQ's reply to NaN
)

const shortstrMax = 255 // bytes (AMQP 0-9-1 §4.2.5.3)

// check refuses a message that would end the connection, and with it every other
// unconfirmed message. Other faults close only the channel, so the broker's reply
// reports them.
func (m Message) check() error {
	texts := [...]struct{ what, text string }{
		{"exchange", m.Exchange},
		{"routing key", m.RoutingKey},
		{"content type", m.Publishing.ContentType},
		{"content encoding", m.Publishing.ContentEncoding},
		{"correlation id", m.Publishing.CorrelationId},
		{"reply-to", m.Publishing.ReplyTo},
		{"expiration", m.Publishing.Expiration},
		{"message id", m.Publishing.MessageId},
		{"type", m.Publishing.Type},
		{"user id", m.Publishing.UserId},
		{"app id", m.Publishing.AppId},
	}
	for _, t := range texts {
		if len(t.text) > shortstrMax {
			return m.refused(codeSyntax, fmt.Sprintf("%s of %d bytes, at most %d are possible", t.what, len(t.text), shortstrMax))
		}
	}
	if header.Withheld(m.Publishing.Headers) {
		return m.refused(codeSyntax, "the message is redacted, and a redacted message is never sent")
	}
	if reason := checkHeaders(m.Publishing.Headers); reason != nil {
		return m.refused(reason.code, reason.text)
	}
	return nil
}

// CheckName refuses a name that no exchange or queue of RabbitMQ can have. The
// client closes the connection when it has to encode a longer one.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("an empty name")
	case len(name) > shortstrMax:
		return fmt.Errorf("a name of %d bytes, at most %d are possible", len(name), shortstrMax)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q, which is not UTF-8", name)
	}
	return nil
}

func checkHeaders(headers amqp.Table) *refusal {
	if stashed, present := headers[amqpstream.UnreadableHeaders]; present {
		if err := amqpstream.CheckUnreadable(stashed); err != nil {
			return &refusal{codeSyntax, err.Error()}
		}
	}
	return checkTable(headers)
}

// checkSize refuses headers, of the given encoded size, that exceed one frame of frameMax bytes, 0
// for no limit.
func (m Message) checkSize(headers, frameMax int) error {
	properties := m.Publishing
	properties.Headers = nil // counted by their encoded size
	size := wire.HeaderFrameSize(properties)
	if headers > 0 {
		size += 4 + headers
	}
	if frameMax > 0 && size > frameMax {
		return m.refused(codeFrame, fmt.Sprintf("properties and headers need a frame of %d bytes, the broker takes %d", size, frameMax))
	}
	return nil
}

func (m Message) refused(code int, reason string) error {
	return &RefusedError{Exchange: m.Exchange, RoutingKey: m.RoutingKey, Code: code, Reason: reason}
}

type refusal struct {
	code int
	text string
}

func checkTable(t amqp.Table) *refusal {
	for key, value := range t {
		if len(key) > shortstrMax {
			return &refusal{codeSyntax, fmt.Sprintf("header name of %d bytes, at most %d are possible", len(key), shortstrMax)}
		}
		if reason := checkField(key, value); reason != nil {
			return reason
		}
	}
	return nil
}

func checkField(key string, value any) *refusal {
	switch v := value.(type) {
	case nil, bool, byte, int8, int16, uint16, int32, uint32, int64, amqp.Decimal, string, []byte, time.Time:
		return nil
	case int:
		if v < math.MinInt32 || v > math.MaxInt32 { // the client library would truncate it to 32 bits
			return &refusal{codeSyntax, fmt.Sprintf("header %q: %d does not fit an int, which travels as 32 bits; use int64", key, v)}
		}
		return nil
	case float32:
		return checkFloat(key, float64(v))
	case float64:
		return checkFloat(key, v)
	case amqp.Table:
		return checkTable(v)
	case []any:
		for _, element := range v {
			if reason := checkField(key, element); reason != nil {
				return reason
			}
		}
		return nil
	}
	return &refusal{codeSyntax, fmt.Sprintf("header %q: AMQP has no type for %T", key, value)}
}

func checkFloat(key string, v float64) *refusal {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return &refusal{codeInternal, fmt.Sprintf("header %q: %s has no place in a RabbitMQ header", key, strconv.FormatFloat(v, 'g', -1, 64))}
	}
	return nil
}
