// Package otlptest has a collector of OpenTelemetry for tests.
package otlptest

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes spans and metrics by OTLP over HTTP.
type Collector struct {
	URL string

	mu      sync.Mutex
	headers []http.Header // of the requests
	spans   []Span
	metrics []*metrics.Metric
}

// Span is a span with its ids in hexadecimal.
type Span struct {
	*trace.Span
	Trace, ID, Parent string
	Links             []string // ids of spans
	Attributes        map[string]any
}

// Start starts a collector that ends with the test.
func Start(t testing.TB) *Collector {
	c := &Collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// ServeHTTP takes a request. The data of a signal has the form of its request.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var spans trace.TracesData
	var measured metrics.MetricsData
	switch r.URL.Path {
	case "/v1/traces":
		err = errors.Join(err, proto.Unmarshal(body, &spans))
	case "/v1/metrics":
		err = errors.Join(err, proto.Unmarshal(body, &measured))
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "cannot be read", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header)
	for _, of := range spans.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, newSpan(s))
			}
		}
	}
	for _, of := range measured.ResourceMetrics {
		for _, scope := range of.ScopeMetrics {
			c.metrics = append(c.metrics, scope.Metrics...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func newSpan(s *trace.Span) Span {
	made := Span{s, hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), nil, Attributes(s.Attributes)}
	for _, link := range s.Links {
		made.Links = append(made.Links, hex.EncodeToString(link.SpanId))
	}
	return made
}

// Attributes returns the texts and integers of attributes.
func Attributes(all []*common.KeyValue) map[string]any {
	found := map[string]any{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			found[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			found[a.Key] = v.IntValue
		}
	}
	return found
}

// Spans returns the spans of a trace, by their ends.
func (c *Collector) Spans(id string) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Span
	for _, s := range c.spans {
		if s.Trace == id {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b Span) int { return int(a.EndTimeUnixNano) - int(b.EndTimeUnixNano) })
	return found
}

// Metrics returns what was exported of a metric.
func (c *Collector) Metrics(name string) (found []*metrics.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.metrics {
		if m.Name == name {
			found = append(found, m)
		}
	}
	return found
}

// Headers returns the values of a header of all requests.
func (c *Collector) Headers(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var values []string
	for _, h := range c.headers {
		values = append(values, h.Get(name))
	}
	return strings.Join(slices.Compact(values), ",")
}
