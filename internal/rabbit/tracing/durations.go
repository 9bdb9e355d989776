package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
)

// durations measure attempts.
type durations struct {
	histogram metric.Float64Histogram
	options   cache[measured, []metric.RecordOption]
}

// measured are the attempts with the same attributes.
type measured struct {
	place
	failed bool
}

func newDurations(meter metric.Meter) (*durations, error) {
	advised := metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
	histogram, err := messagingconv.NewProcessDuration(meter, advised)
	return &durations{histogram: histogram.Inst()}, err
}

// record measures an attempt. The context has its span, for exemplars.
func (d *durations) record(ctx context.Context, took time.Duration, of measured) {
	d.histogram.Record(ctx, took.Seconds(), d.options.get(of, measured.options)...)
}

// options has the attributes of attempts. Texts of messages and of errors have no place there.
func (of measured) options() []metric.RecordOption {
	all := []attribute.KeyValue{
		semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
		semconv.MessagingDestinationName(of.destination()),
	}
	if of.failed {
		all = append(all, semconv.ErrorTypeOther)
	}
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(all...))}
}
