package otlp

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Results of spans, as labels of a metric.
const (
	exported = "exported"
	failed   = "failed"
	dropped  = "dropped"
)

// boundedQueue drops and counts spans while too many wait: the SDK's own queue counts what it drops for its own log.
type boundedQueue struct {
	sdktrace.SpanProcessor
	of      *Exporters
	waiting *atomic.Int64
}

// OnEnd implements sdktrace.SpanProcessor.
func (q *boundedQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > maxSpans {
		q.waiting.Add(-1)
		q.of.spans.WithLabelValues(dropped).Inc()
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// spanExporter counts the spans that it exports. It logs errors, of which the SDK would know only a handler for the
// whole process.
type spanExporter struct {
	sdktrace.SpanExporter
	of      *Exporters
	waiting *atomic.Int64
	collector
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, end := e.of.bounded(ctx)
	defer end()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	result := exported
	if err != nil {
		result = failed
	}
	e.of.spans.WithLabelValues(result).Add(float64(len(spans)))
	e.waiting.Add(-int64(len(spans)))
	e.report(err)
	return nil
}

// metricExporter logs errors, as spanExporter does.
type metricExporter struct {
	sdkmetric.Exporter
	of *Exporters
	collector
}

// Export implements sdkmetric.Exporter.
func (e *metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	ctx, end := e.of.bounded(ctx)
	defer end()
	e.report(e.Exporter.Export(ctx, m))
	return nil
}

// bounded returns a context that ends with Close, too.
func (e *Exporters) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.exporting, cancel)
	return ctx, func() { stop(); cancel() }
}

// collector logs when requests begin to fail, and when they succeed again.
type collector struct {
	logger *slog.Logger
	what   string
	away   atomic.Bool
}

func (c *collector) report(err error) {
	switch was := c.away.Swap(err != nil); {
	case err != nil && !was:
		c.logger.Warn("the collector of OpenTelemetry does not take "+c.what+"; messages go on without them", "error", err)
	case err == nil && was:
		c.logger.Info("the collector of OpenTelemetry takes " + c.what + " again")
	}
}
