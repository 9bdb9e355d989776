package pipeline

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// HTTPConfig says where messages are posted.
type HTTPConfig struct {
	URL     string
	Timeout time.Duration // of one request; zero: 30 s
	Client  *http.Client  // nil: one of its own that keeps its connections
}

const (
	defaultHTTPTimeout = 30 * time.Second
	responseLimit      = 1 << 10 // bytes of a response that are kept in the error
	idleConnections    = 256
)

// HTTP is a handler that posts each message: the body as it is with its
// content type, message headers as request headers, and what Watership knows
// of the message in headers that begin with "Watership-". The Idempotency-Key
// is the same at every attempt.
//
//	2xx                                    handled
//	408, 425, 429, 5xx, no answer          tried again, after Retry-After where the answer has one
//	401, 403, 404, 405                     the service is unavailable: no attempt is lost
//	any other                              poison at once
func HTTP(cfg HTTPConfig) message.HandlerFunc {
	poster := &httpPoster{cfg}
	if poster.Timeout <= 0 {
		poster.Timeout = defaultHTTPTimeout
	}
	if poster.Client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = idleConnections
		poster.Client = &http.Client{Transport: transport}
	}
	return func(msg *message.Message) ([]*message.Message, error) {
		return nil, poster.post(msg.Context())
	}
}

type httpPoster struct{ HTTPConfig }

func (p *httpPoster) post(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	e, _ := schemas.FromContext(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(e.Body))
	if err != nil {
		return fmt.Errorf("making a request to %s: %w", p.URL, err)
	}
	setHeaders(request.Header, e, AttemptFrom(ctx))
	response, err := p.Client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, responseLimit))   // the status says enough without it
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, drainLimit)) // lets the connection be used again
	if response.StatusCode/100 == 2 {
		return nil
	}
	return judge(&StatusError{response.StatusCode, p.URL, printable(text)}, response.Header)
}

const drainLimit = 256 << 10

// StatusError is an answer other than 2xx.
type StatusError struct {
	Status int
	URL    string
	Body   string // its first KiB
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.URL, e.Status, http.StatusText(e.Status))
	if e.Body != "" {
		text += ": " + e.Body
	}
	return text
}

// judge says what an answer means for the message.
func judge(err *StatusError, header http.Header) error {
	switch err.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return retryAfter(err, header)
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return retry.Unavailable(err)
	}
	if err.Status >= 500 {
		return retryAfter(err, header)
	}
	return retry.Permanent(err)
}

// retryAfter obeys a Retry-After header (RFC 9110 §10.2.3): seconds or a date.
func retryAfter(err error, header http.Header) error {
	value := header.Get("Retry-After")
	if seconds, bad := strconv.Atoi(value); bad == nil && seconds >= 0 {
		return retry.After(time.Duration(seconds)*time.Second, err)
	}
	if date, bad := http.ParseTime(value); bad == nil {
		return retry.After(time.Until(date), err)
	}
	return err
}

func setHeaders(h http.Header, e schemas.Envelope, attempt Attempt) {
	for name, value := range e.Headers {
		if text, ok := headerText(value); ok && mayBeRequestHeader(name, text) {
			h.Set(name, text)
		}
	}
	h.Set("Content-Type", "application/octet-stream")
	setIf(h, "Content-Type", e.Properties.ContentType)
	setIf(h, "Content-Encoding", e.Properties.ContentEncoding)
	h.Set("Idempotency-Key", attempt.Fingerprint)
	h.Set("Watership-Fingerprint", attempt.Fingerprint)
	h.Set("Watership-Attempt", strconv.Itoa(attempt.Number))
	setIf(h, "Watership-Queue", attempt.Queue)
	setIf(h, "Watership-Exchange", e.Exchange)
	setIf(h, "Watership-Routing-Key", e.RoutingKey)
	setIf(h, "Watership-Message-Id", e.Properties.MessageID)
	setIf(h, "Watership-Correlation-Id", e.Properties.CorrelationID)
	setIf(h, "Watership-Type", e.Properties.Type)
}

func setIf(h http.Header, name, value string) {
	if value != "" && isFieldValue(value) {
		h.Set(name, value)
	}
}

// headerText is a message header as text; tables and arrays have none.
func headerText(value any) (string, bool) {
	switch v := value.(type) {
	case nil, amqp.Table, []any:
		return "", false
	case []byte:
		return base64.StdEncoding.EncodeToString(v), true
	case time.Time:
		return v.UTC().Format(time.RFC3339), true
	}
	return fmt.Sprint(value), true
}

// mayBeRequestHeader keeps message headers from changing what the request means.
func mayBeRequestHeader(name, value string) bool {
	lower := strings.ToLower(name)
	for _, framing := range []string{
		"connection", "content-", "expect", "host", "idempotency-key", "keep-alive", "proxy-",
		"te", "trailer", "transfer-encoding", "upgrade", "watership-", "x-death",
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

func printable(text []byte) string {
	return strings.TrimSpace(strings.ToValidUTF8(string(text), "�"))
}
