// Package otlp exports spans and metrics to an OpenTelemetry collector, by HTTP. Nothing waits for the collector: what it
// does not take in time is dropped and counted.
package otlp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Config configures Exporters. The variables OTEL_* of OpenTelemetry hold for what it leaves open
// (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
type Config struct {
	Endpoint string            // such as http://localhost:4318; "": the variable
	Headers  map[string]string // of requests; none: the variable
	Sample   float64           // part of the traces that begin here; 1: the variable, or all
	Version  string            // of the program
	Logger   *slog.Logger
}

const (
	maxSpans     = 8192            // that wait for their export
	closeTimeout = 5 * time.Second // for the last spans and metrics
)

// Exporters have what is exported. Nil: nothing is.
type Exporters struct {
	cfg       Config
	resource  *resource.Resource
	spans     *prometheus.CounterVec
	tracer    *sdktrace.TracerProvider // nil: no spans
	measures  bool                     // whether metrics are exported
	meter     *sdkmetric.MeterProvider // nil until ExportMetrics
	exporting context.Context          // ends once Close has waited long enough
	abort     context.CancelFunc
}

// Open returns Exporters of the signals, spans and metrics, for which Config or environment has an endpoint, and whose
// OTEL_*_EXPORTER is not none; nil if that is neither, or OTEL_SDK_DISABLED is true. It asks no server.
func Open(ctx context.Context, cfg Config) (*Exporters, error) {
	traces, measures := cfg.exports("TRACES"), cfg.exports("METRICS")
	if !traces && !measures || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	e := &Exporters{cfg: cfg, measures: measures, spans: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "watership", Name: "trace_spans_total", Help: "Spans by what became of them: exported, failed or dropped since too many waited.",
	}, []string{"result"})}
	for _, result := range []string{exported, failed, dropped} {
		e.spans.WithLabelValues(result)
	}
	var err error
	e.resource, err = resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		semconv.ServiceName("watership"), semconv.ServiceVersion(cfg.Version), semconv.ServiceInstanceID(rand.Text()),
	), resource.WithFromEnv())
	if err != nil {
		cfg.Logger.Warn("the resource of traces is incomplete", "error", err)
	}
	e.exporting, e.abort = context.WithCancel(context.WithoutCancel(ctx))
	if traces {
		err = e.openTraces(ctx)
		if err != nil {
			e.abort()
			return nil, err
		}
	}
	return e, nil
}

// exports reports whether a signal is exported.
func (c Config) exports(signal string) bool {
	to := cmp.Or(c.Endpoint, os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	return to != "" && os.Getenv("OTEL_"+signal+"_EXPORTER") != "none"
}

func (e *Exporters) openTraces(ctx context.Context) error {
	cfg := e.cfg
	var options []otlptracehttp.Option
	if cfg.Endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(endpoint(cfg.Endpoint, "traces")))
	}
	if len(cfg.Headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(cfg.Headers))
	}
	to, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return fmt.Errorf("the exporter of traces: %w", err)
	}
	waiting := &atomic.Int64{}
	batches := sdktrace.NewBatchSpanProcessor(&spanExporter{SpanExporter: to, of: e, waiting: waiting, collector: collector{logger: cfg.Logger, what: "traces"}}, sdktrace.WithMaxQueueSize(maxSpans))
	provider := []sdktrace.TracerProviderOption{sdktrace.WithResource(e.resource), sdktrace.WithSpanProcessor(&boundedQueue{batches, e, waiting})}
	if cfg.Sample < 1 {
		provider = append(provider, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.Sample))))
	}
	e.tracer = sdktrace.NewTracerProvider(provider...)
	return nil
}

// endpoint returns the URL of a signal below the URL of a collector, as of OTEL_EXPORTER_OTLP_ENDPOINT.
func endpoint(base, signal string) string {
	joined, err := url.JoinPath(base, "v1", signal)
	if err != nil {
		return base // the configuration has checked it
	}
	return joined
}

// TracerProvider returns the provider of spans; nil if none are exported.
func (e *Exporters) TracerProvider() trace.TracerProvider {
	if e == nil || e.tracer == nil {
		return nil
	}
	return e.tracer
}

// ExportMetrics begins to export the metrics of a registry with those of the returned provider, once a minute unless
// OTEL_METRIC_EXPORT_INTERVAL says another time. It adds the counts of spans to the registry. It returns nil if no metrics
// are exported.
func (e *Exporters) ExportMetrics(ctx context.Context, to prometheus.Registerer, from prometheus.Gatherer) (metric.MeterProvider, error) {
	if e == nil {
		return nil, nil
	}
	if err := to.Register(e.spans); err != nil {
		return nil, fmt.Errorf("the metric of spans: %w", err)
	}
	if !e.measures {
		return nil, nil
	}
	var options []otlpmetrichttp.Option
	if e.cfg.Endpoint != "" {
		options = append(options, otlpmetrichttp.WithEndpointURL(endpoint(e.cfg.Endpoint, "metrics")))
	}
	if len(e.cfg.Headers) > 0 {
		options = append(options, otlpmetrichttp.WithHeaders(e.cfg.Headers))
	}
	exporter, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("the exporter of metrics: %w", err)
	}
	reader := sdkmetric.NewPeriodicReader(&metricExporter{Exporter: exporter, of: e, collector: collector{logger: e.cfg.Logger, what: "metrics"}},
		sdkmetric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(from))))
	e.meter = sdkmetric.NewMeterProvider(sdkmetric.WithResource(e.resource), sdkmetric.WithReader(reader))
	return e.meter, nil
}

// Close exports what waits, within five seconds, and drops the rest.
func (e *Exporters) Close() error {
	if e == nil {
		return nil
	}
	abort := time.AfterFunc(closeTimeout, e.abort)
	defer abort.Stop()
	defer e.abort()
	var errs []error
	ctx := context.Background() // requests end with e.exporting
	if e.meter != nil {
		errs = append(errs, e.meter.Shutdown(ctx))
	}
	if e.tracer != nil {
		errs = append(errs, e.tracer.Shutdown(ctx))
	}
	return errors.Join(errs...)
}
