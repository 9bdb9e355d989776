package tracing

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

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

// destination returns {exchange}:{routing key} for a publisher and {exchange}:{routing key}:{queue} for a consumer,
// without what is empty or is there already.
func (s Step) destination() string {
	queue := s.Queue
	if queue == s.Envelope.RoutingKey && !s.bare {
		queue = ""
	}
	parts := []string{s.Envelope.Exchange, s.Envelope.RoutingKey, queue}
	if s.bare {
		parts[1] = ""
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return valid(cmp.Or(strings.Join(parts, ":"), "amq.default"))
}

// place returns the destination without the routing key, which is of the message.
func (s Step) place() string {
	s.bare = true
	return s.destination()
}

func (s Step) attributes(operation string, types ...attribute.KeyValue) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 12), semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName(operation),
		semconv.MessagingDestinationName(s.destination()), semconv.MessagingMessageBodySize(len(s.Envelope.Body)))
	all = append(all, types...)
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
