package webhook

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// FuzzWebhook holds every message to this: its request is one request with its body, and
// has no header under a name of the publisher's choice; if it chooses the target, the
// request goes to an allowed host, and has the path of the template; and every answer to this: it
// makes the message wait no longer than it may, and its error is text of bounded length.
func FuzzWebhook(f *testing.F) {
	f.Add("tenant", "acme", "order", []byte("body"), 404, "120", "", "no such order")
	f.Add("a\r\nHost: evil", "b\r\n\r\nGET / HTTP/1.1", "gzip", []byte("0\r\n\r\n"), 503, "-1", "", "\xff\x1b[2J")
	f.Add("Transfer-Encoding", "chunked", "\u0085", []byte{}, 429, "Wed, 21 Oct 9999 07:28:00 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "")
	f.Add("card", "late", "poison", []byte("{}"), 200, "", "", `{"a": [{"b/c": [null]}]}`)
	f.Add("card", "PUT", "a.example.com", []byte(`{"id": "7"}`), 200, "", "", "")
	f.Add("traceparent", "\t", "\x7f", []byte{0}, 308, "99999999999999999999", "x", strings.Repeat("€", 500))
	f.Fuzz(func(t *testing.T, name, value, text string, body []byte, status int, after, date, answer string) {
		e := schemas.Envelope{
			Exchange: text, RoutingKey: value, Body: body,
			Properties: schemas.Properties{ContentType: text, ContentEncoding: value, MessageID: text, CorrelationID: value, Type: name},
			Headers: amqp.Table{
				name: value, value: name, text: []byte(value), name + "-table": amqp.Table{value: []any{text}}, "tracestate": text, "X-Forwarded-For": value,
			},
		}
		answering := func(r *http.Request) (*http.Response, error) {
			checkRequest(t, r, body, isToOrders)
			return &http.Response{
				StatusCode: 100 + int(uint(status)%500), Body: io.NopCloser(strings.NewReader(answer)),
				Header: http.Header{
					"Retry-After": {after}, "Date": {date}, "Location": {value},
					"Watership-Outcome": {text}, "Watership-Class": {value}, "Watership-Error-Type": {name},
				},
			}, nil
		}
		msg := message.NewMessage("uuid", body)
		msg.SetContext(schemas.NewContext(t.Context(), e))
		toChosen := sent(Config{
			URL: "https://{headers.tracestate}/hooks/{headers.X-Forwarded-For}/{body.json.id}?type={type}", Method: "{routing_key}", Hosts: []string{"*.example.com"},
			SetHeaders: map[string]string{"Traceparent": "a {exchange}"},
		}, func(r *http.Request) (*http.Response, error) {
			checkRequest(t, r, body, isToChosen)
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})
		var refused *TargetError
		if err := toChosen.post(msg.Context()); err != nil && (!errors.As(err, &refused) || !retry.IsPermanent(err) || len(err.Error()) > 500) {
			t.Errorf("no request: %v", err)
		}
		_, err := New(Config{URL: "http://service/orders", MaxRetryAfter: time.Minute, Answers: []Answer{{Field: "/a/0/b~1c", Class: "found"}, {Header: "Location", Value: "acme", Class: "there"}}, Client: &http.Client{Transport: roundTrip(answering)}})(msg)
		var wait *retry.AfterError
		if errors.As(err, &wait) && (wait.Delay < 0 || wait.Delay > time.Minute) {
			t.Errorf("%q makes it wait %s", after, wait.Delay)
		}
		for _, text := range []string{retry.TypeOf(err), retry.ClassOf(err)} {
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) || len(text) > longestName {
				t.Errorf("the answer made %q of an error", text)
			}
		}
		if err != nil && (!utf8.ValidString(err.Error()) || len(err.Error()) > 4*errorBody) {
			t.Errorf("an error of %d bytes: %q", len(err.Error()), err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func isToOrders(r *http.Request) bool {
	return r.Host == "service" && r.Method == http.MethodPost && r.URL.String() == "/orders"
}

func isToChosen(r *http.Request) bool {
	segments := strings.Split(r.URL.Path, "/")
	return strings.HasSuffix(strings.TrimSuffix(r.Host, ":443"), ".example.com") && slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, r.Method) &&
		len(segments) == 4 && segments[1] == "hooks" && segments[2] != ".." && segments[3] != ".." && len(r.URL.Query()) == 1
}

// checkRequest looks at a request as it is on the wire.
func checkRequest(t *testing.T, r *http.Request, body []byte, isRight func(*http.Request) bool) {
	t.Helper()
	var wire bytes.Buffer
	if err := r.Write(&wire); err != nil {
		t.Fatalf("%v cannot be sent: %v", r.Header, err)
	}
	reader := bufio.NewReader(&wire)
	got, err := http.ReadRequest(reader)
	if err != nil {
		t.Fatalf("%v cannot be read: %v", r.Header, err)
	}
	sent, err := io.ReadAll(got.Body)
	if err != nil || !bytes.Equal(sent, body) {
		t.Errorf("the body %q is %q, %v", body, sent, err)
	}
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("something follows the request: %v", r.Header)
	}
	if !isRight(got) {
		t.Errorf("it is %s %s to %q", got.Method, got.URL, got.Host)
	}
	known := []string{"User-Agent", "Content-Length", "Content-Type", "Content-Encoding", "Idempotency-Key", "Traceparent", "Tracestate"}
	for name := range got.Header {
		if !strings.HasPrefix(name, "Watership-") && !slices.Contains(known, name) {
			t.Errorf("a publisher's header is %s: %q", name, got.Header[name])
		}
	}
}
