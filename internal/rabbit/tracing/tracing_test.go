package tracing

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/watershipmq/watership/schemas"
)

const (
	publisher = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	other     = "00-11111111111111111111111111111111-2222222222222222-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func recorder(t *testing.T) (*Tracer, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	tracer, err := New(Config{Spans: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))})
	if err != nil {
		t.Fatal(err)
	}
	return tracer, spans
}

// Destinations are those of the conventions for RabbitMQ.
func TestDestinations(t *testing.T) {
	for want, s := range map[string]Step{
		"shop:order.placed:orders": {Envelope: schemas.Envelope{Exchange: "shop", RoutingKey: "order.placed"}, Queue: "orders"},
		"shop:order.placed":        {Envelope: schemas.Envelope{Exchange: "shop", RoutingKey: "order.placed"}},
		"shop:orders":              {Envelope: schemas.Envelope{Exchange: "shop", RoutingKey: "orders"}, Queue: "orders"},
		"orders":                   {Envelope: schemas.Envelope{RoutingKey: "orders"}, Queue: "orders"},
		"orders:orders":            {Envelope: schemas.Envelope{Exchange: "orders", RoutingKey: "orders"}, Queue: "orders"},
		"amq.default":              {},
		"s?":                       {Envelope: schemas.Envelope{Exchange: "s\xff"}},
	} {
		if got := s.way(operation{}).destination(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The publisher's flag decides whether an attempt is sampled, and the context goes on in either case. A header that is no
// traceparent counts as none.
func TestParentsOfAttempts(t *testing.T) {
	for name, test := range map[string]struct {
		header, before  any
		sampled, linked bool
		parent          string
	}{
		"sampled":         {publisher, "", true, false, "b7ad6b7169203331"},
		"not sampled":     {unsampled, "", false, false, "b7ad6b7169203331"},
		"a second one":    {publisher, other, true, true, "b7ad6b7169203331"},
		"none, the first": {nil, "", true, false, "0000000000000000"},
		"none, again":     {nil, other, true, true, "2222222222222222"},
		"malformed":       {"00-0-0-01", other, true, true, "2222222222222222"},
		"no text":         {int64(7), "x", true, false, "0000000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, spans := recorder(t)
			s := Step{Envelope: schemas.Envelope{Headers: amqp.Table{"traceparent": test.header}}, State: schemas.State{Trace: test.before.(string)}, Queue: "q"}
			ctx, span := tracer.Process(t.Context(), s)
			span.End(time.Now(), nil)
			if !trace.SpanContextFromContext(ctx).IsValid() || contextOf(amqp.Table{"traceparent": span.Traceparent("")}).IsSampled() != test.sampled {
				t.Errorf("the context is %v, the next state has %s", ctx, span.Traceparent(""))
			}
			if !test.sampled {
				return
			}
			got := spans.Ended()[0]
			if got.Parent().SpanID().String() != test.parent || (len(got.Links()) == 1) != test.linked {
				t.Errorf("parent %s, links %v", got.Parent().SpanID(), got.Links())
			}
		})
	}
}

// A message of a handler carries what its handler gave it, or else the context of the message being handled: each attempt
// publishes the same message, by which receivers know it again. The span of publishing belongs to the attempt.
func TestEachAttemptPublishesTheSameMessage(t *testing.T) {
	const own = "00-33333333333333333333333333333333-4444444444444444-01"
	for name, test := range map[string]struct {
		handled, returned, want amqp.Table
		linked                  bool
	}{
		"no context":      {},
		"not copied":      {amqp.Table{"traceparent": publisher, "tracestate": "shop=1"}, amqp.Table{"n": int64(1)}, amqp.Table{"traceparent": publisher, "tracestate": "shop=1", "n": int64(1)}, false},
		"not sampled":     {amqp.Table{"traceparent": unsampled}, nil, amqp.Table{"traceparent": unsampled}, false},
		"malformed":       {amqp.Table{"traceparent": "00-0-0-01"}, nil, nil, false},
		"copied":          {amqp.Table{"traceparent": publisher}, amqp.Table{"traceparent": publisher, "tracestate": "shop=2"}, amqp.Table{"traceparent": publisher, "tracestate": "shop=2"}, false},
		"its own":         {amqp.Table{"traceparent": publisher, "tracestate": "shop=1"}, amqp.Table{"traceparent": own}, amqp.Table{"traceparent": own}, true},
		"its own, no one": {nil, amqp.Table{"traceparent": own, "tracestate": "a=b"}, amqp.Table{"traceparent": own, "tracestate": "a=b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, spans := recorder(t)
			for range 2 {
				handled := Step{Envelope: schemas.Envelope{Headers: test.handled}}
				ctx, attempt := tracer.Process(t.Context(), handled)
				handled.State.Trace = attempt.Traceparent("")
				e := schemas.Envelope{Exchange: "billing", Headers: amqp.Table{}}
				maps.Copy(e.Headers, test.returned)
				Inherit(e.Headers, handled.Envelope)
				span := tracer.Publish(ctx, e, handled)
				span.End(time.Now(), nil)
				want := schemas.Envelope{Exchange: "billing", Headers: test.want}
				if e.Fingerprint() != want.Fingerprint() {
					t.Errorf("got %v", e.Headers)
				}
				if name == "not sampled" {
					continue
				}
				got := spans.Ended()[len(spans.Ended())-1]
				if got.Parent().SpanID() != attempt.span.SpanContext().SpanID() || (len(got.Links()) == 1) != test.linked {
					t.Errorf("parent %s, links %v", got.Parent().SpanID(), got.Links())
				}
			}
		})
	}
}

// With rules of redaction a span has nothing of its message but the fingerprint, and no text of an error; measurements
// never have.
func TestBareSpans(t *testing.T) {
	const secret = "ada@example.com"
	for _, bare := range []bool{true, false} {
		spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
		tracer, err := New(Config{
			Spans:        sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
			Measurements: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), Bare: bare,
		})
		if err != nil {
			t.Fatal(err)
		}
		s := Step{
			Queue: "orders", State: schemas.State{Fingerprint: "v1:0"}, Began: time.Now().Add(-time.Second),
			Envelope: schemas.Envelope{Exchange: "shop", RoutingKey: secret, Properties: schemas.Properties{MessageID: secret, CorrelationID: secret}},
		}
		ctx, attempt := tracer.Process(t.Context(), s)
		attempt.End(time.Now(), &schemas.Failure{Message: secret, Type: secret})
		tracer.Publish(ctx, s.Envelope, s).End(time.Now(), &schemas.Failure{Message: secret})
		var measured metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &measured); err != nil {
			t.Fatal(err)
		}
		said, names := "", ""
		for _, span := range tracetest.SpanStubsFromReadOnlySpans(spans.Ended()) {
			said += fmt.Sprint(span.Name, span.Status, span.Attributes)
			names += span.Name + ","
		}
		if strings.Contains(said, secret) == bare || bare && names != "process shop:orders,publish shop," || !strings.Contains(said, "v1:0") {
			t.Errorf("bare %v: %s", bare, said)
		}
		if got := fmt.Sprint(measured.ScopeMetrics); strings.Contains(got, secret) || !strings.Contains(got, "shop:orders") {
			t.Errorf("it measured %s", got)
		}
	}
}

// An error's text has any size and any bytes; a span does not.
func TestTextsOfErrorsAreShort(t *testing.T) {
	tracer, spans := recorder(t)
	_, span := tracer.Process(t.Context(), Step{})
	span.End(time.Now(), &schemas.Failure{Message: strings.Repeat("\xffé", 1<<10), Type: strings.Repeat("é", 1<<10)})
	got := spans.Ended()[0]
	attributes := attribute.NewSet(got.Attributes()...)
	kind, _ := attributes.Value("error.type")
	for text, most := range map[string]int{got.Status().Description: 1 << 10, kind.AsString(): 256} {
		if len(text) > most || len(text) < most-4 || !utf8.ValidString(text) {
			t.Errorf("%d bytes, want %d: %q", len(text), most, text)
		}
	}
}

// Without a Tracer nothing happens.
func TestWithoutATracer(t *testing.T) {
	tracer, err := New(Config{})
	ctx, span := tracer.Process(t.Context(), Step{})
	span.End(time.Now(), &schemas.Failure{})
	tracer.Publish(ctx, schemas.Envelope{}, Step{}).End(time.Now(), nil)
	tracer.Wait(ctx, Step{}).End(time.Now(), nil)
	if err != nil || ctx != t.Context() || span.Traceparent("before") != "before" {
		t.Errorf("got %v, %v", err, span.Traceparent("before"))
	}
}

// A Tracer that measures alone leaves the span of its caller to it.
func TestMeasurementsWithoutSpans(t *testing.T) {
	tracer, err := New(Config{Measurements: sdkmetric.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, of := sdktrace.NewTracerProvider().Tracer("caller").Start(t.Context(), "its own")
	got, span := tracer.Process(ctx, Step{})
	span.End(time.Now(), &schemas.Failure{Message: "failed"})
	if !of.IsRecording() || trace.SpanFromContext(got) != of || span.Traceparent("before") != "before" || span.Records() {
		t.Errorf("the span of the caller: recording %t, the span of the attempt is %q", of.IsRecording(), span.Traceparent("before"))
	}
}
