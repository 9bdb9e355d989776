// Package tracing makes OpenTelemetry spans of the steps of messages. Names and attributes are those of the semantic
// conventions for RabbitMQ in version 1.43.0
// (https://opentelemetry.io/docs/specs/semconv/messaging/rabbitmq/).
package tracing

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/watershipmq/watership/schemas"
)

const scope = "github.com/watershipmq/watership"

// Tracer makes the spans of steps, and measures attempts. Nil: neither.
type Tracer struct {
	tracer    trace.Tracer // nil: no spans
	starts    cache[way, start]
	durations *durations // nil: no measurements
	bare      bool
}

// Config configures a Tracer.
type Config struct {
	Spans        trace.TracerProvider // nil: none
	Measurements metric.MeterProvider // nil: none

	// Bare: spans have the exchange, the queue and the fingerprint of a message, and neither its routing key and ids nor
	// texts of errors.
	Bare bool
}

// New returns a Tracer; nil without both providers.
func New(cfg Config) (*Tracer, error) {
	if cfg.Spans == nil && cfg.Measurements == nil {
		return nil, nil
	}
	t := &Tracer{bare: cfg.Bare}
	if cfg.Spans != nil {
		t.tracer = cfg.Spans.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	}
	if cfg.Measurements == nil {
		return t, nil
	}
	var err error
	t.durations, err = newDurations(cfg.Measurements.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL)))
	return t, err
}

// Process begins the span of an attempt. The context is for its handler.
func (t *Tracer) Process(ctx context.Context, s Step) (context.Context, *Span) {
	ctx, span := t.start(ctx, s, operation{"process", trace.SpanKindConsumer, "process"})
	if span != nil {
		span.durations = t.durations
	}
	return ctx, span
}

// Wait begins the span of the time in delay queues. The conventions have no type of operation for it.
func (t *Tracer) Wait(ctx context.Context, s Step) *Span {
	_, span := t.start(ctx, s, operation{"wait", trace.SpanKindInternal, ""})
	return span
}

// Poison begins the span of giving a message up, for which the conventions have no type either.
func (t *Tracer) Poison(ctx context.Context, s Step) *Span {
	_, span := t.start(ctx, s, operation{"poison", trace.SpanKindInternal, ""})
	return span
}

// Replay begins the span of sending a stored message, which keeps the context of its first publisher.
func (t *Tracer) Replay(ctx context.Context, s Step) *Span {
	_, span := t.start(ctx, s, operation{"replay", trace.SpanKindClient, "send"})
	return span
}

// start begins the span of a step. Its parent is the context of the publisher, so that one trace has the whole life of
// the message, or else the span before.
func (t *Tracer) start(ctx context.Context, s Step, of operation) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	if s.bare = t.bare; s.Began.IsZero() {
		s.Began = time.Now()
	}
	if t.tracer == nil {
		return ctx, s.span(trace.SpanFromContext(context.Background())) // one that records nothing: that of ctx is its maker's
	}
	parent, before := contextOf(s.Envelope.Headers), parentOf(s.State.Trace)
	if !parent.IsValid() {
		parent = before
	}
	var links []trace.Link
	if before.IsSampled() {
		links = []trace.Link{{SpanContext: before}}
	}
	if parent.IsValid() || trace.SpanContextFromContext(ctx).HasTraceID() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	ctx, span := t.startSpan(ctx, s, of, links)
	return ctx, s.span(span)
}

// startSpan starts a span with the attributes by which a sampler decides. Only a span that is sampled gets the others.
func (t *Tracer) startSpan(ctx context.Context, s Step, of operation, links []trace.Link) (context.Context, trace.Span) {
	begin := t.starts.get(s.way(of), way.start)
	options := append(make([]trace.SpanStartOption, 0, len(begin.options)+2), begin.options...)
	if len(links) > 0 {
		options = append(options, trace.WithLinks(links...))
	}
	if !s.Began.IsZero() {
		options = append(options, trace.WithTimestamp(s.Began))
	}
	ctx, span := t.tracer.Start(ctx, begin.name, options...)
	if span.IsRecording() {
		span.SetAttributes(s.attributes()...)
	}
	return ctx, span
}

// start has the name of spans, and the options by which a sampler decides
// (https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/).
type start struct {
	name    string
	options []trace.SpanStartOption
}

func (w way) start() start {
	destination := w.destination()
	attributes := []attribute.KeyValue{semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName(w.name), semconv.MessagingDestinationName(destination)}
	if w.opType != "" {
		attributes = append(attributes, semconv.MessagingOperationTypeKey.String(w.opType))
	}
	return start{w.name + " " + destination, []trace.SpanStartOption{trace.WithSpanKind(w.kind), trace.WithAttributes(attributes...)}}
}

// Inherit gives a message that a handler returned without a traceparent the context of the message being handled, if that
// has one. The context of a span would be another in each attempt, and so would be the fingerprint, by which receivers know
// a message again.
func Inherit(headers amqp.Table, handled schemas.Envelope) {
	if headers[headerParent] != nil || handled.Headers[headerParent] == nil {
		return
	}
	if before := contextOf(handled.Headers); before.IsValid() {
		inject(trace.ContextWithRemoteSpanContext(context.Background(), before), headers)
	}
}

// Publish begins the span of publishing a message that the handler of a step returned.
func (t *Tracer) Publish(ctx context.Context, e schemas.Envelope, handled Step) *Span {
	if t == nil || t.tracer == nil {
		return nil
	}
	brought, before := contextOf(e.Headers), contextOf(handled.Envelope.Headers)
	var links []trace.Link
	if brought.IsValid() && brought.SpanID() != before.SpanID() {
		links = []trace.Link{{SpanContext: brought}}
	}
	s, attempt := Step{Envelope: e, bare: t.bare}, parentOf(handled.State.Trace)
	_, span := t.startSpan(trace.ContextWithRemoteSpanContext(ctx, attempt), s, operation{"publish", trace.SpanKindClient, "send"}, links)
	return s.span(span)
}
