package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/watershipmq/watership/internal/template/messagefield"
	"github.com/watershipmq/watership/internal/template/requestheader"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// messageHeader is the prefix of request headers that are headers of the message. Their
// names and values are chosen by the publisher: without the prefix they could change
// the meaning of the request for the service or for a proxy.
const messageHeader = "Watership-Header-"

func (p *poster) setHeaders(ctx context.Context, h *requestHeaders, e schemas.Envelope, attempt retry.Attempt, idempotencyKey string) {
	h.setIf("Idempotency-Key", idempotencyKey)
	p.setMessageHeaders(h, e)
	if trace.SpanContextFromContext(ctx).IsValid() { // of the attempt, or of middleware
		h.Del("Tracestate")
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h.Header))
	}
	h.set("Content-Type", "application/octet-stream")
	h.setIf("Content-Type", e.Properties.ContentType)
	if isContentCoding(e.Properties.ContentEncoding) {
		h.set("Content-Encoding", e.Properties.ContentEncoding)
	} else { // such as utf-8, which Celery sets on every message
		h.setIf("Watership-Content-Encoding", e.Properties.ContentEncoding)
	}
	h.set("Watership-Fingerprint", attempt.Fingerprint)
	h.set("Watership-Attempt", strconv.Itoa(attempt.Number))
	h.setIf("Watership-Queue", attempt.Queue)
	h.setIf("Watership-Exchange", e.Exchange)
	h.setIf("Watership-Routing-Key", e.RoutingKey)
	h.setIf("Watership-Replay", attempt.Replay)
	h.setIf(progressHeader, attempt.Progress)
	h.setIf("Watership-Message-Id", e.Properties.MessageID)
	h.setIf("Watership-Correlation-Id", e.Properties.CorrelationID)
	h.setIf("Watership-Type", e.Properties.Type)
}

// requestHeaders sets the headers of a request, whose values share an array: http.Header.Set
// allocates one for each.
type requestHeaders struct {
	http.Header
	values []string
}

const usualHeaders = 14

func newRequestHeaders() *requestHeaders {
	return &requestHeaders{Header: make(http.Header, usualHeaders), values: make([]string, 0, usualHeaders)}
}

func (h *requestHeaders) set(name, value string) {
	h.values = append(h.values, value)
	n := len(h.values)
	h.Header[http.CanonicalHeaderKey(name)] = h.values[n-1 : n : n]
}

func (h *requestHeaders) setIf(name, value string) {
	if value != "" && isFieldValue(value) {
		h.set(name, value)
	}
}

// setMessageHeaders sets the headers of the message: the names of Config.Headers
// unchanged, every other one with the prefix messageHeader.
func (p *poster) setMessageHeaders(h *requestHeaders, e schemas.Envelope) {
	headers := e.PublisherHeaders()
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		text, ok := messagefield.HeaderText(headers[name])
		if !ok || !requestheader.IsToken(name) || !isFieldValue(text) {
			continue
		}
		if p.headers[http.CanonicalHeaderKey(name)] {
			h.set(name, text)
		} else {
			h.Add(messageHeader+name, text)
		}
	}
}

// idempotencyKey returns the same key for every attempt at one message of a queue. A
// replay has another key, so that the service does not drop it as a repeat.
func idempotencyKey(e schemas.Envelope, attempt retry.Attempt) string {
	if e.Properties.MessageID == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", attempt.Fingerprint, attempt.Queue, attempt.Replay))
	return hex.EncodeToString(sum[:16])
}

// isContentCoding reports whether an encoding is a list of registered content codings
// (https://www.iana.org/assignments/http-parameters).
func isContentCoding(encoding string) bool {
	for coding := range strings.SplitSeq(encoding, ",") {
		if !slices.Contains([]string{
			"aes128gcm", "br", "compress", "dcb", "dcz", "deflate", "exi", "gzip", "pack200-gzip", "x-compress", "x-gzip", "zstd",
		}, strings.ToLower(strings.TrimSpace(coding))) {
			return false
		}
	}
	return true
}

// isFieldValue reports whether s is a field value of RFC 9110 §5.5, without the line
// breaks that would add headers.
func isFieldValue(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}
