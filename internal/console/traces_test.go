package console_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/otlp/otlptest"
)

// The life of a message is one trace, that of its publisher: it fails twice, waits in between, is given up, and is
// handled after a replay. The message page leads there.
func TestTheLifeOfAMessageIsATrace(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("Authorization: Bearer secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	collector := otlptest.Start(t)
	s := newSystem(t, "WATERSHIP_TRACES_ENDPOINT="+collector.URL, "WATERSHIP_TRACES_HEADERS_FILE="+headers,
		"WATERSHIP_TRACES_PAGE=https://jaeger.example/trace/{trace_id}?a=1&b=2", "WATERSHIP_RETRY_POLICIES={default: {delays: [10ms]}}")
	const trace, publisher = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	s.broken.Store(true)
	s.publish(t, "traced-1", "{}", amqp.Table{"traceparent": "00-" + trace + "-" + publisher + "-01", "tracestate": "shop=1"})
	s.await(t, 1, "action: poisoned")
	s.broken.Store(false)
	action, form := s.get(t, "/replays/new?q=action%3A+poisoned&target=failed_queue").form(t, "Send 1 message")
	s.post(t, action, form)
	s.await(t, 1, "action: handled")

	var spans []otlptest.Span
	if !rabbittest.Poll(rabbittest.Timeout, func() bool { spans = collector.Spans(trace); return len(spans) >= 6 }) {
		t.Fatalf("the collector has %d spans of the trace: %v", len(spans), spans)
	}
	byName := map[string][]otlptest.Span{}
	for _, span := range spans {
		name, destination, _ := strings.Cut(span.Name, " ")
		byName[name] = append(byName[name], span)
		if span.Parent != publisher || destination != "shop:order.placed:orders" || span.Attributes["messaging.destination.name"] != destination || span.TraceState != "shop=1" {
			t.Errorf("span %s has the parent %s, the state %q and %v", span.Name, span.Parent, span.TraceState, span.Attributes)
		}
	}
	if len(byName["process"]) != 3 || len(byName["wait"]) != 1 || len(byName["poison"]) != 1 || len(byName["replay"]) != 1 {
		t.Fatalf("got %v", byName)
	}
	first, second, third := byName["process"][0], byName["process"][1], byName["process"][2]
	for name, linked := range map[string]struct {
		span otlptest.Span
		to   string
	}{
		"the wait":           {byName["wait"][0], first.ID},
		"the second attempt": {second, first.ID},
		"the poison":         {byName["poison"][0], second.ID},
		"the replay":         {byName["replay"][0], second.ID},
		"the third attempt":  {third, byName["replay"][0].ID},
	} {
		if strings.Join(linked.span.Links, ",") != linked.to {
			t.Errorf("%s is linked to %v, want %s", name, linked.span.Links, linked.to)
		}
	}
	if len(first.Links) != 0 || first.Status.Message != "no table for order traced-1" || first.Attributes["error.type"] == nil {
		t.Errorf("the first attempt has %v, %v, %v", first.Links, first.Status, first.Attributes)
	}
	if wait := byName["wait"][0]; wait.EndTimeUnixNano-wait.StartTimeUnixNano < uint64(10*time.Millisecond) {
		t.Error("the wait is shorter than its delay")
	}

	for _, query := range []string{"action: published", "action: poisoned", "action: handled"} {
		for _, e := range s.events(t, query) {
			if e.TraceID() != trace || e.Envelope.Headers["traceparent"] != "00-"+trace+"-"+publisher+"-01" {
				t.Errorf("%s: trace %s, headers %v", query, e.TraceID(), e.Envelope.Headers)
			}
		}
	}
	page := s.get(t, "/messages/traced-1")
	page.want(t, http.StatusOK, "Open the trace", "Trace")
	if !strings.Contains(page.text, `href="https://jaeger.example/trace/`+trace+`?a=1&amp;b=2"`) {
		t.Error("the page has no link to the trace")
	}
	if got := collector.Headers("Authorization"); got != "Bearer secret" {
		t.Errorf("the collector got the header %q", got)
	}

	scraped := s.do(t, http.MethodGet, "/metrics", nil, "Accept", "application/openmetrics-text")
	if !strings.Contains(scraped.text, `trace_id="`+trace+`"`) || !strings.Contains(scraped.text, "watership_trace_spans_total") {
		t.Errorf("the metrics have no exemplar of the trace:\n%s", scraped.text)
	}
	for _, name := range []string{"messaging.process.duration", "watership_attempt_duration_seconds", "watership_attempts_total"} {
		if !rabbittest.Poll(rabbittest.Timeout, func() bool { return len(collector.Metrics(name)) > 0 }) {
			t.Errorf("the collector has no %s", name)
		}
	}
}

// A message without a traceparent has a trace of its own, which begins with its first attempt. Without a collector it takes
// the same way, and its pages have no links.
func TestMessagesWithoutATraceparent(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	for _, collector := range []string{otlptest.Start(t).URL, "http://127.0.0.1:9"} {
		s := newSystem(t, "WATERSHIP_TRACES_ENDPOINT="+collector, "WATERSHIP_RETRY_POLICIES={default: {delays: [10ms]}}")
		s.broken.Store(true)
		s.publish(t, "traced-1", "{}", nil)
		s.await(t, 1, "action: poisoned")
		s.await(t, 1, "action: retry_scheduled")
		trace := s.events(t, "action: poisoned")[0].TraceID()
		if again := s.events(t, "action: retry_scheduled")[0].TraceID(); len(trace) != 32 || trace != again {
			t.Errorf("one message has the traces %q and %q", again, trace)
		}
		s.await(t, 2, "trace.id: "+trace)
		if page := s.get(t, "/messages/traced-1"); strings.Contains(page.text, "Open the trace") {
			t.Error("the page has a link without an address")
		}
	}
}
