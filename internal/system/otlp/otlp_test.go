package otlp

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/otlp/otlptest"
)

func open(t *testing.T, cfg Config) *Exporters {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := Open(t.Context(), cfg)
	if err != nil || e == nil {
		t.Fatalf("got %v, %v", e, err)
	}
	return e
}

// While a collector does not answer, spans are dropped instead of waiting, each is counted, and Close ends its requests.
func TestACollectorThatDoesNotAnswer(t *testing.T) {
	asked := make(chan struct{}, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server notices the end of a request behind its body
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer collector.Close()
	e := open(t, Config{Endpoint: collector.URL, Sample: 1})
	tracer := e.TracerProvider().Tracer("test")
	const more = 17
	for range maxSpans + more {
		_, span := tracer.Start(t.Context(), "span")
		span.End()
	}
	<-asked
	if got := testutil.ToFloat64(e.spans.WithLabelValues(dropped)); got != more {
		t.Errorf("%v spans are dropped, want %d", got, more)
	}
	e.abort() // as Close does after its time-out
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if got := testutil.ToFloat64(e.spans.WithLabelValues(failed)); got != maxSpans {
		t.Errorf("%v spans failed, want %d", got, maxSpans)
	}
}

// What waits at the end is exported. Samples, headers and paths are those of the configuration.
func TestCloseExportsTheRest(t *testing.T) {
	collector := otlptest.Start(t)
	e := open(t, Config{Endpoint: collector.URL + "/", Headers: map[string]string{"Authorization": "Bearer x"}, Sample: 1})
	registry := prometheus.NewRegistry()
	if _, err := e.ExportMetrics(t.Context(), registry, registry); err != nil {
		t.Fatal(err)
	}
	_, span := e.TracerProvider().Tracer("test").Start(t.Context(), "last")
	span.End()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got := collector.Spans(span.SpanContext().TraceID().String()); len(got) != 1 || got[0].Name != "last" {
		t.Errorf("got %v", got)
	}
	if got := collector.Headers("Authorization"); got != "Bearer x" || len(collector.Metrics("watership_trace_spans_total")) == 0 {
		t.Errorf("the header is %q, and the metrics are %v", got, collector.Metrics("watership_trace_spans_total"))
	}
}

// Without an endpoint nothing is exported; the variables of OpenTelemetry name one, too, and turn it off.
func TestTheEnvironmentDecides(t *testing.T) {
	off, err := Open(t.Context(), Config{Sample: 1})
	if off != nil || err != nil || off.TracerProvider() != nil || off.Close() != nil {
		t.Errorf("got %v, %v", off, err)
	}
	collector := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	e := open(t, Config{Sample: 1})
	_, span := e.TracerProvider().Tracer("test").Start(t.Context(), "s")
	span.End()
	id := span.SpanContext().TraceID().String()
	if !rabbittest.Poll(time.Minute, func() bool { return len(collector.Spans(id)) == 1 }) {
		t.Error("the collector of the environment gets nothing")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if off, err = Open(t.Context(), Config{Endpoint: collector.URL}); off != nil || err != nil {
		t.Errorf("got %v, %v", off, err)
	}
}

// Each signal has its own endpoint and its own exporter in the environment.
func TestTheEnvironmentDecidesAboutEachSignal(t *testing.T) {
	for name, test := range map[string]struct {
		variables        map[string]string
		traces, measures bool
	}{
		"both":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, true, true},
		"traces":       {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}, true, false},
		"metrics":      {map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:9/v1/metrics"}, false, true},
		"no traces":    {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"}, false, true},
		"no metrics":   {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_METRICS_EXPORTER": "none"}, true, false},
		"neither":      {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, false, false},
		"switched off": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "TRUE"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range test.variables {
				t.Setenv(variable, value)
			}
			e, err := Open(t.Context(), Config{Sample: 1, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			registry := prometheus.NewRegistry()
			meter, err := e.ExportMetrics(t.Context(), registry, registry)
			if err != nil || (meter != nil) != test.measures || (e.TracerProvider() != nil) != test.traces {
				t.Errorf("%v: traces %v, metrics %v", err, e.TracerProvider(), meter)
			}
			if e != nil {
				e.abort() // no collector gets the last metrics
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// With a sample of 0 no trace begins here, and the traces of publishers go on.
func TestPublishersDecideAboutTheirTraces(t *testing.T) {
	collector := otlptest.Start(t)
	e := open(t, Config{Endpoint: collector.URL, Sample: 0})
	_, own := e.TracerProvider().Tracer("test").Start(t.Context(), "own")
	if own.End(); own.SpanContext().IsSampled() {
		t.Error("a trace is sampled")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if got := endpoint("http://c:4318/otlp", "traces"); !strings.HasSuffix(got, "4318/otlp/v1/traces") {
		t.Errorf("got %s", got)
	}
}
