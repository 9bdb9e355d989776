package tracing

import (
	"cmp"
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// Span is the span of a step. Nil: none.
type Span struct {
	span      trace.Span
	place     place
	began     time.Time
	bare      bool
	durations *durations // nil: it is not measured
}

// Traceparent returns the context of the span for State.Trace; before, if there is no span.
func (s *Span) Traceparent(before string) string {
	if s == nil || !s.span.SpanContext().IsValid() {
		return before
	}
	of := s.span.SpanContext()
	id, span := of.TraceID(), of.SpanID()
	text := append(make([]byte, 0, len("00-")+2*len(id)+len("-")+2*len(span)+len("-00")), "00-"...)
	text = append(hex.AppendEncode(text, id[:]), '-')
	text = append(hex.AppendEncode(text, span[:]), '-')
	return string(hex.AppendEncode(text, []byte{byte(of.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom))}))
}

// parentOf returns the span context of a traceparent; it is invalid without one.
func parentOf(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	return contextOf(amqp.Table{headerParent: traceparent})
}

// Records reports whether End needs to know the failure: without a span, or if it is not sampled, it does not.
func (s *Span) Records() bool { return s != nil && s.span.IsRecording() }

// Limits of texts in spans, of which thousands may wait: an error's text has any size.
const (
	statusBytes = 1 << 10
	typeBytes   = 256
)

// End ends the span at a time, with the failure of the step or nil.
func (s *Span) End(at time.Time, why *schemas.Failure) {
	if s == nil {
		return
	}
	if why != nil {
		s.fail(*why)
	}
	if took := at.Sub(s.began); s.durations != nil && took > 0 { // that of another consumer may be unknown
		s.durations.record(trace.ContextWithSpan(context.Background(), s.span), took, measured{s.place, why != nil})
	}
	if s.Records() {
		s.span.End(trace.WithTimestamp(at))
	}
}

func (s *Span) fail(why schemas.Failure) {
	if s.bare {
		why = schemas.Failure{}
	}
	s.span.SetStatus(codes.Error, header.Shorten(valid(why.Message), statusBytes))
	s.span.SetAttributes(semconv.ErrorTypeKey.String(header.Shorten(valid(cmp.Or(why.Type, "_OTHER")), typeBytes)))
}

// Headers of the W3C trace context (https://www.w3.org/TR/trace-context/).
const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

func inject(ctx context.Context, headers amqp.Table) {
	propagation.TraceContext{}.Inject(ctx, carrier(headers))
}

// contextOf returns the span context in the headers of a message; it is invalid if they have none.
func contextOf(headers amqp.Table) trace.SpanContext {
	if headers[headerParent] == nil {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier(headers)))
}

// carrier has the headers of a message, of which only texts count.
type carrier amqp.Table

func (c carrier) Get(name string) string {
	text, _ := c[name].(string)
	return text
}

func (c carrier) Set(name, value string) { c[name] = value }

func (c carrier) Keys() []string { return slices.Collect(maps.Keys(c)) }
