package webhook

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/trace"

	"github.com/watershipmq/watership/schemas"
)

// A request has the context of the span of its attempt, in place of the publisher's.
func TestRequestsContinueTheTraceOfTheAttempt(t *testing.T) {
	headers := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header }))
	defer server.Close()
	e := schemas.Envelope{Headers: amqp.Table{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "shop=1"}}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	for _, names := range [][]string{nil, {"x-tenant"}} {
		msg := message.NewMessage("", nil)
		msg.SetContext(schemas.NewContext(trace.ContextWithSpanContext(t.Context(), span), e))
		if _, err := New(Config{URL: server.URL, Headers: names})(msg); err != nil {
			t.Fatal(err)
		}
		got := <-headers
		if len(got.Values("Traceparent")) != 1 || got.Get("Traceparent") != "00-01000000000000000000000000000000-0200000000000000-01" || got.Get("Tracestate") != "" {
			t.Errorf("with %q: %v", names, got)
		}
	}
}
