package webhook

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// post hands a message to an HTTP handler.
func post(cfg Config, e schemas.Envelope, attempt retry.Attempt) error {
	msg := message.NewMessage("", e.Body)
	msg.SetContext(schemas.NewContext(retry.ContextWithAttempt(context.Background(), attempt), e))
	_, err := New(cfg)(msg)
	return err
}

// answering is a service that gives one answer.
func answering(t testing.TB, status int, header http.Header, body string) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server
}

// meaningOf returns the meaning of a handler's error.
func meaningOf(err error) Meaning {
	switch retry.Default().Next(retry.Failure{Err: err, Attempt: 1}, nil).Action {
	case retry.Poison:
		return Poison
	case retry.Defer:
		return Unavailable
	}
	return Retry
}

func TestStatuses(t *testing.T) {
	for meaning, statuses := range map[Meaning][]int{
		Handled:     {200, 201, 202, 204},
		Retry:       {301, 302, 303, 307, 308, 401, 403, 404, 405, 407, 408, 421, 425, 429, 500, 501, 505, 599},
		Poison:      {400, 402, 409, 410, 413, 415, 422},
		Unavailable: {502, 503, 504},
	} {
		for _, status := range statuses {
			server := answering(t, status, http.Header{"Location": {"/elsewhere"}}, "")
			err := post(Config{URL: server.URL}, schemas.Envelope{}, retry.Attempt{})
			if meaning == Handled {
				if err != nil {
					t.Errorf("%d: %v", status, err)
				}
				continue
			}
			var got *StatusError
			if !errors.As(err, &got) || got.Status != status || meaningOf(err) != meaning {
				t.Errorf("%d: %v means %s, want %s", status, err, meaningOf(err), meaning)
			}
		}
	}
}

// A redirect is a status like any other, also if its Location is no URL: it is in no error,
// and an answer can have it as its condition.
func TestRedirectToNoURL(t *testing.T) {
	server := answering(t, 308, http.Header{"Location": {"http://[s3cret" + strings.Repeat("x", 5000)}}, "")
	err := post(Config{URL: server.URL}, schemas.Envelope{}, retry.Attempt{})
	var got *StatusError
	if !errors.As(err, &got) || got.Status != 308 || meaningOf(err) != Retry || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %.200v", err)
	}
	if err := post(Config{URL: server.URL, Answers: []Answer{{Header: "Location", Means: Handled}}}, schemas.Envelope{}, retry.Attempt{}); err != nil {
		t.Errorf("with an answer: %.200v", err)
	}
}

func TestStatusesAreConfigurable(t *testing.T) {
	answers := []Answer{{Status: "404", Means: Poison}, {Status: "409", Means: Handled}, {Status: "4xx", Means: Retry}, {Status: "500", Means: Unavailable}}
	for status, want := range map[int]Meaning{404: Poison, 400: Retry, 500: Unavailable, 501: Retry, 422: Retry} {
		server := answering(t, status, nil, "")
		if err := post(Config{URL: server.URL, Answers: answers}, schemas.Envelope{}, retry.Attempt{}); err == nil || meaningOf(err) != want {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
	}
	if err := post(Config{URL: answering(t, 409, nil, "").URL, Answers: answers}, schemas.Envelope{}, retry.Attempt{}); err != nil {
		t.Error(err)
	}
}

func TestConfigValidate(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  Config
		want string
	}{
		"fine":    {Config{URL: "http://shop/orders", Answers: []Answer{{Status: "404", Means: Poison}, {Field: "/a", Class: "b"}}}, ""},
		"scheme":  {Config{URL: "ftp://shop"}, "expected http or https"},
		"no host": {Config{URL: "http:///orders"}, "expected http or https and a host"},
		"status":  {Config{URL: "http://shop", Answers: []Answer{{Status: "1xx", Means: Retry}}}, `answer 1: status "1xx": expected one from`},
		"headers": {Config{URL: "http://shop", Headers: []string{"X-Tenant", "Host"}}, `header "Host": expected a header that is not`},
		"meaning": {Config{URL: "http://shop", Answers: []Answer{{Status: "404", Means: "ignore"}}}, `meaning "ignore": expected one of [handled`},
	} {
		err := test.cfg.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Retry-After makes a message wait longer than its policy says, and never less. A
// date is one on the clock of the service.
func TestRetryAfter(t *testing.T) {
	clock := time.Now().Add(-3 * time.Hour) // of the service
	on := func(later time.Duration) string { return clock.Add(later).UTC().Format(http.TimeFormat) }
	for value, want := range map[string]time.Duration{
		"7":                  7 * time.Second,
		"0":                  time.Second,
		"86400":              time.Minute + 10*time.Second, // capped, and rounded up
		"-5":                 time.Second,                  // not obeyed: the policy's
		"soon":               time.Second,
		"9999999999999":      time.Minute + 10*time.Second,
		on(30 * time.Second): 30 * time.Second,
		on(-time.Hour):       time.Second,
	} {
		header := http.Header{"Retry-After": {value}, "Date": {on(0)}}
		for status, action := range map[int]retry.Action{500: retry.Retry, 503: retry.Defer, 429: retry.Defer} {
			err := post(Config{URL: answering(t, status, header, "").URL, MaxRetryAfter: time.Minute}, schemas.Envelope{}, retry.Attempt{})
			if got := retry.Default().Next(retry.Failure{Err: err, Attempt: 1}, nil); got.Action != action || got.Delay != want {
				t.Errorf("%d, %s: %+v, want %s %s", status, value, got, action, want)
			}
		}
		err := post(Config{URL: answering(t, 500, header, "").URL, MaxRetryAfter: time.Minute}, schemas.Envelope{}, retry.Attempt{})
		if got := retry.Default().Next(retry.Failure{Err: err, Attempt: 2}, nil); got.Delay != max(want, 10*time.Second) {
			t.Errorf("%s: %+v, want the delay of the policy at least", value, got)
		}
	}
	err := post(Config{URL: answering(t, 500, http.Header{
		"Retry-After": {time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat)}, "Date": nil,
	}, "").URL}, schemas.Envelope{}, retry.Attempt{})
	if got := retry.Default().Next(retry.Failure{Err: err, Attempt: 1}, nil); got.Delay < 20*time.Second || got.Delay > 30*time.Second {
		t.Errorf("without a Date: %+v", got)
	}
}

// A rule finds the failure by its type and by the text of the response; a class that the
// service names wins.
func TestRulesFindResponses(t *testing.T) {
	classifier, err := retry.NewClassifier(
		retry.Rule{Name: "type", ErrorType: "shop.*", Class: "by-type"}, retry.Rule{Name: "text", Text: "422.*no stock", Class: "by-text"})
	if err != nil {
		t.Fatal(err)
	}
	for want, header := range map[string]http.Header{
		"text by-text": nil, "type by-type": {"Watership-Error-Type": {"shop.StockError"}}, " named": {"Watership-Class": {"named"}},
	} {
		failure := post(Config{URL: answering(t, 422, header, "no stock of 42").URL}, schemas.Envelope{}, retry.Attempt{})
		rule, classified := classifier.Classify("orders", nil, failure)
		if got := rule + " " + retry.ClassOf(classified); got != want || !retry.IsPermanent(classified) {
			t.Errorf("%v: got %q, want %q", failure, got, want)
		}
	}
}

func TestErrorInTheCharsetOfTheAnswer(t *testing.T) {
	service := answering(t, 422, http.Header{"Content-Type": {"text/plain; charset=iso-8859-1"}}, "Ung\xfcltige W\xe4hrung")
	var status *StatusError
	if err := post(Config{URL: service.URL}, schemas.Envelope{}, retry.Attempt{}); !errors.As(err, &status) || status.Body != "Ungültige Währung" {
		t.Errorf("%v", err)
	}
}

func TestErrorHoldsTheAnswer(t *testing.T) {
	server := answering(t, 422, nil, "no such customer\xff"+strings.Repeat("x", 1<<20))
	withPassword := strings.Replace(server.URL, "http://", "http://shop:secret@", 1) + "/services/secret?token=secret"
	err := post(Config{URL: withPassword}, schemas.Envelope{}, retry.Attempt{})
	if text := err.Error(); !strings.Contains(text, "422 Unprocessable Entity: no such customer") || len(text) > 1200 || strings.Contains(text, "secret") {
		t.Errorf("%.2000s", text)
	}
	server.Close()
	err = post(Config{URL: withPassword}, schemas.Envelope{}, retry.Attempt{})
	if err == nil || strings.Contains(err.Error(), "secret") || meaningOf(err) != Unavailable {
		t.Errorf("a refused connection: %v", err)
	}
}

// The error of an answer whose body repeats its status has the status once.
func TestErrorHasTheStatusOnce(t *testing.T) {
	for body, want := range map[string]string{
		"Method Not Allowed\n":        "405 Method Not Allowed",
		"405 method not allowed":      "405 Method Not Allowed",
		"Method Not Allowed: use GET": "405 Method Not Allowed: Method Not Allowed: use GET",
		"404 page not found":          "405 Method Not Allowed: 404 page not found",
	} {
		server := answering(t, http.StatusMethodNotAllowed, nil, body)
		if err := post(Config{URL: server.URL}, schemas.Envelope{}, retry.Attempt{}); err == nil || err.Error() != server.URL+" answered "+want {
			t.Errorf("%q: %v, want %s", body, err, want)
		}
	}
}

// A service that has taken a request and does not answer within the time-out may fail by the message. In
// virtual time the time-out cannot end before the connection is there.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		dial := func(context.Context, string, string) (net.Conn, error) { return ours, nil }
		client := &http.Client{Transport: &http.Transport{DialContext: dial}}
		err := post(Config{URL: "http://shop/orders", Client: client, Timeout: time.Minute}, schemas.Envelope{}, retry.Attempt{})
		if err == nil || meaningOf(err) != Retry || retry.TypeOf(err) != "timeout" || !strings.HasSuffix(err.Error(), ": timeout, no answer within 1m0s") {
			t.Errorf("%v of type %s", err, retry.TypeOf(err))
		}
	})
}

// A connection that does not come about within the time-out is the service's fault.
func TestConnectTimeout(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // no server answers the TLS handshake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	err = post(Config{URL: "https://" + listener.Addr().String(), Timeout: 50 * time.Millisecond}, schemas.Envelope{}, retry.Attempt{})
	if err == nil || meaningOf(err) != Unavailable || retry.TypeOf(err) != "timeout" || !strings.HasSuffix(err.Error(), ": timeout, no answer within 50ms") {
		t.Errorf("%v of type %s", err, retry.TypeOf(err))
	}
}

// An authority that is not trusted is as good as no service.
func TestUntrusted(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	if err := post(Config{URL: server.URL}, schemas.Envelope{}, retry.Attempt{}); err == nil || meaningOf(err) != Unavailable {
		t.Error(err)
	}
}

// A message's body and headers arrive unchanged, in addition to Watership's headers.
func TestRequest(t *testing.T) {
	requests := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- r
		bodies <- string(body)
	}))
	t.Cleanup(server.Close)
	e := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.paid", Body: []byte{0, 255, 'x'},
		Properties: schemas.Properties{
			ContentType: "application/x-thing", ContentEncoding: "gzip", MessageID: "m1", CorrelationID: "c1", Type: "order",
		},
		Headers: amqp.Table{
			"tenant": "acme", "count": int64(-5), "ratio": 2.5, "paid": true, "raw": []byte{0, 1},
			"at": time.Unix(1700000000, 0), "price": amqp.Decimal{Scale: 2, Value: 1999},
			"list": []any{"a", int32(1)}, "nested": amqp.Table{"a": "b"}, "nothing": nil,
			"Content-Length": "7", "Host": "evil", "Idempotency-Key": "theirs", "watership-attempt": "9", "x-death": "no",
			"authorization": "Bearer theirs", "Cookie": "theirs", "accept-encoding": "gzip", "X-HTTP-Method-Override": "PUT",
			"bad name": "x", "line": "a\r\nInjected: yes", "tenant_id": "7", "traceparent": "00-af-b7-01", "X-Customer": "hazel",
			"X-Forwarded-For": "10.0.0.1", "X-Original-URL": "/admin", "Origin": "http://evil", "If-Match": "x", "idempotency_key": "theirs",
		},
	}
	cfg := Config{URL: server.URL, Headers: []string{"x-customer", "Traceparent"}}
	if err := post(cfg, e, retry.Attempt{Number: 2, Queue: "orders", Fingerprint: "v1:f"}); err != nil {
		t.Fatal(err)
	}
	r := <-requests
	if body := <-bodies; body != string(e.Body) || r.Method != http.MethodPost || r.ContentLength != 3 || r.Host == "evil" {
		t.Errorf("%s %q to %s", r.Method, body, r.Host)
	}
	r.Header.Del("User-Agent")
	r.Header.Del("Accept-Encoding")
	r.Header.Del("Content-Length")
	want := http.Header{}
	for name, value := range map[string]string{
		"Content-Type": "application/x-thing", "Content-Encoding": "gzip", "Idempotency-Key": "0250b19614b45c2688511d31ab261dc6",
		"X-Customer": "hazel", "Traceparent": "00-af-b7-01",
		"Watership-Header-Tenant": "acme", "Watership-Header-Count": "-5", "Watership-Header-Ratio": "2.5", "Watership-Header-Paid": "true",
		"Watership-Header-Raw": "AAE=", "Watership-Header-At": "2023-11-14T22:13:20Z", "Watership-Header-Price": "19.99",
		"Watership-Header-List": `["a",1]`, "Watership-Header-Nested": `{"a":"b"}`, "Watership-Header-tenant_id": "7",
		"Watership-Header-Content-Length": "7", "Watership-Header-Host": "evil", "Watership-Header-Idempotency-Key": "theirs",
		"Watership-Header-Authorization": "Bearer theirs", "Watership-Header-Cookie": "theirs", "Watership-Header-Accept-Encoding": "gzip",
		"Watership-Header-X-HTTP-Method-Override": "PUT", "Watership-Header-X-Forwarded-For": "10.0.0.1",
		"Watership-Header-X-Original-URL": "/admin", "Watership-Header-Origin": "http://evil", "Watership-Header-If-Match": "x",
		"Watership-Header-idempotency_key": "theirs",
		"Watership-Fingerprint":            "v1:f", "Watership-Attempt": "2", "Watership-Queue": "orders", "Watership-Exchange": "shop",
		"Watership-Routing-Key": "order.paid", "Watership-Message-Id": "m1", "Watership-Correlation-Id": "c1", "Watership-Type": "order",
	} {
		want.Set(name, value)
	}
	if diff := cmp.Diff(want, r.Header); diff != "" {
		t.Error(diff)
	}
}

// The key is the same for every attempt, another for each queue and replay, and
// absent for messages without an id.
func TestIdempotencyKey(t *testing.T) {
	keys := make(chan []string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { keys <- r.Header["Idempotency-Key"] }))
	t.Cleanup(server.Close)
	key := func(cfg Config, id, parentKeys string, attempt retry.Attempt) string {
		t.Helper()
		e := schemas.Envelope{Properties: schemas.Properties{MessageID: id}, Headers: amqp.Table{"Idempotency-Key": parentKeys}}
		cfg.URL = server.URL
		if err := post(cfg, e, attempt); err != nil {
			t.Fatal(err)
		}
		return strings.Join(<-keys, "|")
	}
	first := key(Config{}, "m1", "theirs", retry.Attempt{Number: 1, Queue: "invoice", Fingerprint: "v1:f"})
	if len(first) != 32 {
		t.Errorf("key %q", first)
	}
	if again := key(Config{}, "m1", "theirs", retry.Attempt{Number: 3, Queue: "invoice", Fingerprint: "v1:f"}); again != first {
		t.Errorf("key %q of the third attempt, %q of the first", again, first)
	}
	seen := map[string]bool{first: true}
	for _, other := range []retry.Attempt{
		{Number: 1, Queue: "mail", Fingerprint: "v1:f"},
		{Number: 1, Queue: "invoice", Fingerprint: "v1:g"},
		{Number: 1, Queue: "invoice", Fingerprint: "v1:f", Replay: "job"},
		{Number: 1, Queue: "invoice", Fingerprint: "v1:f", Replay: "other"},
	} {
		if got := key(Config{}, "m1", "theirs", other); seen[got] || len(got) != 32 {
			t.Errorf("%+v has key %q, as another has, or none", other, got)
		} else {
			seen[got] = true
		}
	}
	if got := key(Config{}, "", "theirs", retry.Attempt{Number: 1, Fingerprint: "v1:f"}); got != "" {
		t.Errorf("key %q of a message without an id", got)
	}
	trusting := Config{Headers: []string{"idempotency-key"}}
	for _, id := range []string{"m1", ""} {
		if got := key(trusting, id, "theirs", retry.Attempt{Number: 1, Queue: "invoice", Fingerprint: "v1:f"}); got != "theirs" {
			t.Errorf("key %q where the publisher's is wanted", got)
		}
	}
}

// Content-Encoding says how to decode the body. A coding that HTTP does not know is not
// sent there: servers answer it with 415.
func TestContentEncoding(t *testing.T) {
	encodings := make(chan [2]string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		encodings <- [2]string{r.Header.Get("Content-Encoding"), r.Header.Get("Watership-Content-Encoding")}
	}))
	t.Cleanup(server.Close)
	for encoding, want := range map[string][2]string{
		"gzip": {"gzip", ""}, "GZIP, br": {"GZIP, br", ""}, "": {}, "utf-8": {"", "utf-8"}, "gzip,utf-8": {"", "gzip,utf-8"}, "identity": {"", "identity"},
	} {
		e := schemas.Envelope{Properties: schemas.Properties{ContentEncoding: encoding}}
		if err := post(Config{URL: server.URL}, e, retry.Attempt{}); err != nil {
			t.Fatal(err)
		}
		if got := <-encodings; got != want {
			t.Errorf("%q: got %q, want %q", encoding, got, want)
		}
	}
}

// Hundreds of messages, ten at a time, whatever the answers, take about ten
// connections: the client may dial one while another becomes free.
func TestConnectionsAreUsedAgain(t *testing.T) {
	var connections, calls atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = w.Write(make([]byte, 64<<10))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	handle := New(Config{URL: server.URL})
	const at, each = 10, 50
	done := make(chan struct{})
	for range at {
		go func() {
			defer func() { done <- struct{}{} }()
			for range each {
				_, _ = handle(message.NewMessage("", nil))
			}
		}()
	}
	for range at {
		<-done
	}
	if n := connections.Load(); n > 3*at || calls.Load() != at*each {
		t.Errorf("%d connections for %d calls, %d at once", n, calls.Load(), at)
	}
}

// A service that answers 101 hands over the connection, which nothing ends: the bytes
// that follow are no answer to the message, and are not waited for.
func TestSwitchingProtocols(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n"))
	}))
	t.Cleanup(server.Close)
	answered := make(chan error, 1)
	go func() {
		answered <- post(Config{URL: server.URL, Timeout: 10 * time.Second}, schemas.Envelope{}, retry.Attempt{})
	}()
	var got *StatusError
	if err := rabbittest.Receive(t, answered); !errors.As(err, &got) || got.Status != 101 || meaningOf(err) != Retry {
		t.Errorf("got %v", err)
	}
}

// An answer that matches decides, by status, header and field of the body; the service
// itself decides before it.
func TestAnswers(t *testing.T) {
	answers := []Answer{
		{Status: "4xx", Field: "/error/code", Value: "early", Means: Retry, Class: "ordering"},
		{Field: "/errors/1/kind~1of", Class: "second"},
		{Header: "X-Duplicate", Means: Handled},
		{Header: "X-Code", Value: "7", Means: Poison, Class: "code"},
		{Status: "425", Class: "ordering"},
		{Status: "200", Field: "/ok", Value: "false", Class: "refused"},
		{Status: "204", Class: "empty"},
	}
	for name, test := range map[string]struct {
		status int
		header http.Header
		body   string
		means  Meaning
		class  string
	}{
		"by status":                       {425, nil, "", Retry, "ordering"},
		"no answer":                       {422, nil, `{"error": {"code": "other"}}`, Poison, retry.DefaultClass},
		"by field":                        {422, nil, `{"error": {"code": "early"}}`, Retry, "ordering"},
		"by field, another status":        {500, nil, `{"error": {"code": "early"}}`, Retry, retry.DefaultClass},
		"by field in a long body":         {422, nil, `{"a": "` + strings.Repeat("x", bodyLimit) + `", "error": {"code": "early"}}`, Poison, retry.DefaultClass},
		"no JSON":                         {422, nil, `early`, Poison, retry.DefaultClass},
		"an element":                      {503, nil, `{"errors": [{}, {"kind/of": {"a": 1}}]}`, Unavailable, "second"},
		"no such element":                 {503, nil, `{"errors": [{}]}`, Unavailable, retry.DefaultClass},
		"null is no value":                {503, nil, `{"errors": [{}, {"kind/of": null}]}`, Unavailable, retry.DefaultClass},
		"by header":                       {409, http.Header{"X-Duplicate": {"yes"}}, "", Handled, ""},
		"header with another value":       {500, http.Header{"X-Code": {"8"}}, "", Retry, retry.DefaultClass},
		"header with its value":           {500, http.Header{"X-Code": {"7"}}, "", Poison, "code"},
		"a success with an error":         {200, nil, `{"ok": false}`, Retry, "refused"},
		"a success":                       {200, nil, `{"ok": true}`, Handled, ""},
		"a class alone makes it a retry":  {204, nil, "", Retry, "empty"},
		"the service decides":             {425, http.Header{"Watership-Outcome": {"poison"}, "Watership-Class": {"late"}}, "", Poison, "late"},
		"the service says it is handled":  {500, http.Header{"Watership-Outcome": {"handled"}}, "", Handled, ""},
		"the service fails with a 200":    {200, http.Header{"Watership-Outcome": {"unavailable"}}, "", Unavailable, retry.DefaultClass},
		"an unknown outcome":              {500, http.Header{"Watership-Outcome": {"drop"}}, "", Retry, retry.DefaultClass},
		"a class that cannot be printed":  {500, http.Header{"Watership-Class": {"a\u00e9"}}, "", Retry, retry.DefaultClass},
		"a class that is too long":        {500, http.Header{"Watership-Class": {strings.Repeat("c", 101)}}, "", Retry, retry.DefaultClass},
		"the class of the service alone":  {422, http.Header{"Watership-Class": {"bill"}}, "", Poison, "bill"},
		"Retry-After belongs to a retry":  {425, http.Header{"Retry-After": {"7"}}, "", Retry, "ordering"},
		"a JSON text":                     {422, nil, `"early"`, Poison, retry.DefaultClass},
		"a JSON array where an object is": {422, nil, `[1, 2]`, Poison, retry.DefaultClass},
	} {
		t.Run(name, func(t *testing.T) {
			server := answering(t, test.status, test.header, test.body)
			err := post(Config{URL: server.URL, Answers: answers}, schemas.Envelope{}, retry.Attempt{})
			if test.means == Handled {
				if err != nil {
					t.Errorf("it is no success: %v", err)
				}
				return
			}
			if err == nil || meaningOf(err) != test.means || retry.ClassOf(err) != test.class {
				t.Errorf("%v means %s of class %s, want %s of class %s", err, meaningOf(err), retry.ClassOf(err), test.means, test.class)
			}
		})
	}
}

// A service names the group of a failure; without that it is told by more of the body than the
// error has.
func TestErrorGroup(t *testing.T) {
	trace := "Traceback (most recent call last):\n" + strings.Repeat("  File \"shop.py\", line 17, in pay\n", 100) + "ValueError: card 17 is expired\n"
	for name, test := range map[string]struct {
		header     http.Header
		body, want string
	}{
		"none":  {nil, "no stock of 17", ""},
		"named": {http.Header{"Watership-Error-Group": {"sold out"}}, trace, "sold out"},
		"long":  {nil, trace, " answered 500 internal server error: ValueError: card # is expired"},
	} {
		server := answering(t, http.StatusInternalServerError, test.header, test.body)
		err := post(Config{URL: server.URL}, schemas.Envelope{}, retry.Attempt{})
		if got := retry.GroupOf(err); !strings.HasSuffix(got, test.want) || (got == "") != (test.want == "") || len(err.Error()) > 2*errorBody {
			t.Errorf("%s: the group of %v is %q", name, err, got)
		}
	}
}

// A service says how far it got, and the next request says it again.
func TestProgress(t *testing.T) {
	for name, test := range map[string]struct {
		header http.Header
		want   string
		given  bool
	}{
		"none":  {nil, "", false},
		"some":  {http.Header{"Watership-Progress": {`{"page": 7}`}}, `{"page": 7}`, true},
		"empty": {http.Header{"Watership-Progress": {""}}, "", true},
	} {
		for _, status := range []int{500, 503} {
			server := answering(t, status, test.header, "")
			if got, given := retry.ProgressOf(post(Config{URL: server.URL}, schemas.Envelope{}, retry.Attempt{})); got != test.want || given != test.given {
				t.Errorf("%s with %d: %q %v", name, status, got, given)
			}
		}
	}
	for progress, want := range map[string]string{"": "", "page 7": "page 7", "a\nb": ""} {
		got := "none"
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Watership-Progress") }))
		if err := post(Config{URL: server.URL}, schemas.Envelope{}, retry.Attempt{Progress: progress}); err != nil || got != want {
			t.Errorf("%q is sent as %q, %v", progress, got, err)
		}
		server.Close()
	}
}

// The service names the type of its failures, by which they are grouped.
func TestTypeOfFailure(t *testing.T) {
	for header, want := range map[string]string{"card_declined": "card_declined", "": "*webhook.StatusError", "\u00e9": "*webhook.StatusError"} {
		server := answering(t, 500, http.Header{"Watership-Error-Type": {header}}, "")
		if got := retry.TypeOf(post(Config{URL: server.URL}, schemas.Envelope{}, retry.Attempt{})); got != want {
			t.Errorf("%q: the type is %s, want %s", header, got, want)
		}
	}
}
