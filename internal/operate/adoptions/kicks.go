package adoptions

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// kicksHeader has the failures of a message, the newest first, or the only one.
const kicksHeader = "retry_info"

// kicksInfo is a failure of the handler Maxretry, in the header of Kicks or in the body of
// Sneakers.
type kicksInfo struct {
	Error      string          `json:"error"`
	ErrorClass string          `json:"error_class"`
	Attempts   json.Number     `json:"num_attempts"`
	FailedAt   string          `json:"failed_at"`
	Backtrace  kicksBacktrace  `json:"backtrace"`
	Properties kicksProperties `json:"properties"`
	Payload    *string         `json:"payload"` // of Sneakers: base64
}

type kicksProperties struct {
	Headers         map[string]any `json:"headers"`
	ContentType     string         `json:"content_type"`
	ContentEncoding string         `json:"content_encoding"`
	CorrelationID   string         `json:"correlation_id"`
	ReplyTo         string         `json:"reply_to"`
	MessageID       string         `json:"message_id"`
	Type            string         `json:"type"`
	AppID           string         `json:"app_id"`
	Priority        uint8          `json:"priority"`
	Timestamp       string         `json:"timestamp"`
}

// UnmarshalJSON reads an object, or its text in base64, as Sneakers writes it from 2.5 to 2.11.
// Outside Rails that text is a hash as Ruby prints it, and the properties are lost.
func (p *kicksProperties) UnmarshalJSON(data []byte) error {
	var encoded string
	if json.Unmarshal(data, &encoded) == nil && encoded != "" {
		var err error
		if data, err = decodeBase64(encoded); err != nil {
			return err
		}
	}
	if bytes.HasPrefix(data, []byte(`"`)) {
		return nil
	}
	type object kicksProperties // without this method
	return decodeNumbers(data, (*object)(p))
}

// kicksBacktrace is a list of lines, or one text.
type kicksBacktrace string

func (b *kicksBacktrace) UnmarshalJSON(data []byte) error {
	var lines []string
	if err := json.Unmarshal(data, &lines); err == nil {
		*b = kicksBacktrace(strings.Join(lines, "\n"))
		return nil
	}
	return json.Unmarshal(data, (*string)(b))
}

// readKicks reads a failure of Kicks, or of Sneakers before it, whose error queue has the
// name of the queue and an ending. The origin is in the deaths of its retries, which Sneakers
// keeps from 2.12 on, and before 2.5 it keeps no properties at all.
func readKicks(arrived schemas.Envelope, errorQueue string) (Failure, error) {
	h := headers(arrived.Headers)
	text := []byte(h.text(kicksHeader))
	if len(text) == 0 {
		text = arrived.Body
	}
	info, err := parseKicks(text)
	if err != nil || len(h.text(kicksHeader)) == 0 && info.Payload == nil {
		return Failure{}, fmt.Errorf("neither its header %s nor its body has the record of a failure: it is none of Kicks's failed messages", kicksHeader)
	}
	f := Failure{
		Message: arrived,
		Error:   info.Error, ErrorType: info.ErrorClass, Stack: string(info.Backtrace),
	}
	if attempts, err := info.Attempts.Int64(); err == nil {
		f.Attempts = int(min(max(attempts, 0), maxAttempts))
	}
	f.FailedAt, _ = time.Parse(time.RFC3339, info.FailedAt)
	if info.Payload != nil {
		if f.Message.Body, err = decodeBase64(*info.Payload); err != nil {
			return Failure{}, fmt.Errorf("its payload is no base64: %w", err)
		}
		f.Message.Properties.ContentType = "" // of the record
	}
	f.Message = info.Properties.restore(f.Message)
	f.to(cmp.Or(queueBefore(errorQueue, "-error"), headers(f.Message.Headers).text("x-first-death-queue")))
	if before, _, _ := wire.DeadLetter(f.Message, func(_, _ header.Death) bool { return true }); before.RoutingKey != "" {
		f.Message = before // before its retries
	}
	f.Message = withoutHeaders(f.Message, func(name string) bool { return name == kicksHeader })
	return f, nil
}

func parseKicks(text []byte) (info kicksInfo, err error) {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		text = list[0]
	}
	err = decodeNumbers(text, &info)
	return info, err
}

// decodeNumbers decodes JSON, with numbers as they are written.
func decodeNumbers(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// decodeBase64 decodes base64 with line breaks, as Ruby writes it.
func decodeBase64(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
}

// restore sets the properties and headers of a message before it failed.
func (p kicksProperties) restore(e schemas.Envelope) schemas.Envelope {
	e.Headers = amqp.Table{}
	for name, value := range p.Headers {
		e.Headers[name] = headerValue(value)
	}
	for _, set := range []struct {
		to   *string
		from string
	}{
		{&e.Properties.ContentType, p.ContentType},
		{&e.Properties.ContentEncoding, p.ContentEncoding},
		{&e.Properties.CorrelationID, p.CorrelationID},
		{&e.Properties.ReplyTo, p.ReplyTo},
		{&e.Properties.MessageID, p.MessageID},
		{&e.Properties.Type, p.Type},
		{&e.Properties.AppID, p.AppID},
	} {
		if set.from != "" {
			*set.to = set.from
		}
	}
	e.Properties.Priority = cmp.Or(p.Priority, e.Properties.Priority)
	e.Properties.Timestamp = timeOf(p.Timestamp, "2006-01-02 15:04:05 -0700", time.RFC3339)
	return e
}

// headerValue returns a value of JSON as one of AMQP.
func headerValue(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			if n >= math.MinInt32 && n <= math.MaxInt32 { // as Ruby's client publishes it
				return int32(n)
			}
			return n
		}
		if n, err := v.Float64(); err == nil {
			return n
		}
		return v.String() // beyond the range of a number of AMQP
	case map[string]any:
		table := amqp.Table{}
		for name, each := range v {
			table[name] = headerValue(each)
		}
		return table
	case []any:
		list := make([]any, len(v))
		for i, each := range v {
			list[i] = headerValue(each)
		}
		return list
	}
	return value
}
