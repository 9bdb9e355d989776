package tracing

import (
	"cmp"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/watershipmq/watership/schemas"
)

// Step is a step of a message.
type Step struct {
	Envelope schemas.Envelope
	State    schemas.State // its Trace is the span before
	Queue    string        // of the consumer; "": the step is of a publisher
	Attempt  int           // its number; 0: none
	Began    time.Time     // zero: now

	bare bool // see Config.Bare
}

// operation is what a span is about.
type operation struct {
	name   string
	kind   trace.SpanKind
	opType string // "": the conventions have none for it
}

// way is an operation on the messages of a place with a routing key, whose spans begin with the same name and attributes.
type way struct {
	operation
	place
	routingKey string // "" for a bare step
}

func (s Step) way(of operation) way {
	w := way{of, place{s.Envelope.Exchange, s.Queue}, s.Envelope.RoutingKey}
	if s.bare {
		w.routingKey = ""
	}
	return w
}

// destination returns {exchange}:{routing key} for a publisher and {exchange}:{routing key}:{queue} for a consumer,
// without what is empty or is there already.
func (w way) destination() string {
	if w.routingKey == w.queue {
		return joined(w.exchange, w.queue)
	}
	return joined(w.exchange, w.routingKey, w.queue)
}

// place is an exchange and a queue.
type place struct{ exchange, queue string }

// destination is that of a step without the routing key, which is of the message.
func (p place) destination() string { return joined(p.exchange, p.queue) }

// joined joins the parts of a destination that are not empty.
func joined(parts ...string) string {
	var all strings.Builder
	for _, part := range parts {
		if part != "" && all.Len() > 0 {
			all.WriteByte(':')
		}
		all.WriteString(part)
	}
	return valid(cmp.Or(all.String(), "amq.default"))
}

// span returns the span of the step.
func (s *Step) span(span trace.Span) *Span {
	return &Span{span: span, place: place{s.Envelope.Exchange, s.Queue}, began: s.Began, bare: s.bare}
}

// attributes are those that do not decide about sampling.
func (s Step) attributes() []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 8), semconv.MessagingMessageBodySize(len(s.Envelope.Body)))
	text := func(key attribute.Key, value string) {
		if value != "" {
			all = append(all, key.String(valid(value)))
		}
	}
	if !s.bare {
		text(semconv.MessagingRabbitMQDestinationRoutingKeyKey, s.Envelope.RoutingKey)
		text(semconv.MessagingMessageIDKey, s.Envelope.Properties.MessageID)
		text(semconv.MessagingMessageConversationIDKey, s.Envelope.Properties.CorrelationID)
	}
	text("watership.queue", s.Queue)
	text("watership.fingerprint", s.State.Fingerprint)
	text("watership.replay.job", s.State.Replay)
	if s.Attempt > 0 {
		all = append(all, attribute.Int("watership.attempt", s.Attempt))
	}
	return all
}

// valid returns a text that OTLP can carry: names and ids in RabbitMQ may be any bytes, and one invalid text would
// lose the spans that are exported with it.
func valid(text string) string { return strings.ToValidUTF8(text, "?") }
