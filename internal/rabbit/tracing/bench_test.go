package tracing

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/watershipmq/watership/schemas"
)

// BenchmarkAttempt measures the span and the duration of an attempt, without their export.
func BenchmarkAttempt(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"sampled": sdktrace.AlwaysSample(), "not sampled": sdktrace.NeverSample()} {
		b.Run(name, func(b *testing.B) {
			tracer, err := New(Config{
				Spans:        sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)),
				Measurements: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
			})
			if err != nil {
				b.Fatal(err)
			}
			s := Step{
				Envelope: schemas.Envelope{Exchange: "shop", RoutingKey: "order.placed", Headers: amqp.Table{"tenant": "acme"}, Body: make([]byte, 1024), Properties: schemas.Properties{MessageID: "m-1"}},
				State:    schemas.State{Fingerprint: "v1:0"}, Queue: "orders", Attempt: 1,
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Began = time.Now().Add(-time.Millisecond)
				_, span := tracer.Process(b.Context(), s)
				span.End(time.Now(), nil)
			}
		})
	}
}
