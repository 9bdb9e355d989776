package pipeline

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

func setHeaders(h http.Header, e schemas.Envelope, attempt Attempt) {
	for name, value := range e.Headers {
		if text, ok := headerText(value); ok && mayBeRequestHeader(name, text) {
			h.Set(name, text)
		}
	}
	h.Set("Content-Type", "application/octet-stream")
	setIf(h, "Content-Type", e.Properties.ContentType)
	setIf(h, "Content-Encoding", e.Properties.ContentEncoding)
	setIf(h, "Idempotency-Key", idempotencyKey(e, attempt))
	h.Set("Watership-Fingerprint", attempt.Fingerprint)
	h.Set("Watership-Attempt", strconv.Itoa(attempt.Number))
	setIf(h, "Watership-Queue", attempt.Queue)
	setIf(h, "Watership-Exchange", e.Exchange)
	setIf(h, "Watership-Routing-Key", e.RoutingKey)
	setIf(h, "Watership-Replay", attempt.Replay)
	setIf(h, "Watership-Message-Id", e.Properties.MessageID)
	setIf(h, "Watership-Correlation-Id", e.Properties.CorrelationID)
	setIf(h, "Watership-Type", e.Properties.Type)
}

// idempotencyKey is the same for every attempt at one message. A replay is meant
// to be done again, and is not to be swallowed as a repeat.
func idempotencyKey(e schemas.Envelope, attempt Attempt) string {
	switch {
	case e.Properties.MessageID == "":
		return ""
	case attempt.Replay != "":
		return attempt.Fingerprint + ":" + attempt.Replay
	}
	return attempt.Fingerprint
}

func setIf(h http.Header, name, value string) {
	if value != "" && isFieldValue(value) {
		h.Set(name, value)
	}
}

// headerText is a message header as text: bytes as base64, times as RFC 3339,
// tables and arrays as JSON.
func headerText(value any) (string, bool) {
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

// mayBeRequestHeader keeps message headers from changing what the request means.
func mayBeRequestHeader(name, value string) bool {
	lower := strings.ToLower(name)
	for _, framing := range []string{
		"connection", "content-", "expect", "host", "idempotency-key", "keep-alive", "proxy-",
		"te", "trailer", "authorization", "cookie", "accept-encoding", "x-http-method-override", "transfer-encoding", "upgrade", "watership-", "x-death",
	} {
		if lower == framing || strings.HasSuffix(framing, "-") && strings.HasPrefix(lower, framing) {
			return false
		}
	}
	return isToken(name) && isFieldValue(value)
}

// isToken: RFC 9110 §5.6.2.
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

// isFieldValue: RFC 9110 §5.5, without the line breaks that would add headers.
func isFieldValue(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}
