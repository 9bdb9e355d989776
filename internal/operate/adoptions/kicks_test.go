package adoptions

import (
	"encoding/base64"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// readSneakers reads a failure that is in the body of a message.
func readSneakers(t *testing.T, body string) (Failure, error) {
	t.Helper()
	format, err := FormatNamed("kicks")
	must(t, err)
	return format.Read(schemas.Envelope{RoutingKey: "orders-error", Properties: schemas.Properties{ContentType: "application/json"}, Body: []byte(body)}, "orders-error", "", schemas.Topology{})
}

func TestKicksNewestFailureIsTheFirst(t *testing.T) {
	f := readAs(t, "kicks", "orders-error", amqp.Table{kicksHeader: `[{"error":"newest","num_attempts":3},{"error":"oldest","num_attempts":1}]`})
	if f.Error != "newest" || f.Attempts != 3 || f.Queue != "orders" {
		t.Errorf("%+v", f)
	}
}

func TestKicksOnlyFailureMayBeAnObject(t *testing.T) {
	if f := readAs(t, "kicks", "orders-error", amqp.Table{kicksHeader: `{"error":"boom"}`}); f.Error != "boom" {
		t.Errorf("%+v", f)
	}
}

func TestKicksErrorWithoutAMessage(t *testing.T) {
	if f := readAs(t, "kicks", "orders-error", amqp.Table{kicksHeader: `{"error_class":"RuntimeError"}`}); f.Error != "RuntimeError" {
		t.Errorf("%q", f.Error)
	}
	if f := readAs(t, "kicks", "orders-error", amqp.Table{kicksHeader: `{}`}); f.Error != "no message" {
		t.Errorf("%q", f.Error)
	}
}

func TestKicksBacktraceIsAListOrAText(t *testing.T) {
	for text, want := range map[string]string{`["a.rb:1","b.rb:2"]`: "a.rb:1\nb.rb:2", `"a.rb:1, b.rb:2"`: "a.rb:1, b.rb:2"} {
		if f := readAs(t, "kicks", "orders-error", amqp.Table{kicksHeader: `{"backtrace":` + text + `}`}); f.Stack != want {
			t.Errorf("%s: %q", text, f.Stack)
		}
	}
}

func TestKicksAttemptsAreBounded(t *testing.T) {
	for text, want := range map[string]int{"3": 3, `"3"`: 3, "-1": 0, "99999999999": maxAttempts, "1.5": 0} {
		if f := readAs(t, "kicks", "orders-error", amqp.Table{kicksHeader: `{"error":"x","num_attempts":` + text + `}`}); f.Attempts != want {
			t.Errorf("%s: %d attempts, want %d", text, f.Attempts, want)
		}
	}
}

func TestKicksRestoresHeadersWithTheirTypes(t *testing.T) {
	f := readAs(t, "kicks", "orders-error", amqp.Table{kicksHeader: `{"error":"x","properties":{"headers":{
		"small":7,"large":3000000000,"ratio":0.5,"huge":1e999,"text":"a","yes":true,"none":null,"table":{"n":1},"list":[1,{"n":2}],
		"retry_info":"of an earlier failure","x-death":[{}]}}}`})
	want := amqp.Table{
		"small": int32(7), "large": int64(3_000_000_000), "ratio": 0.5, "huge": "1e999", "text": "a", "yes": true, "none": nil,
		"table": amqp.Table{"n": int32(1)}, "list": []any{int32(1), amqp.Table{"n": int32(2)}},
	}
	if len(f.Message.Headers) != len(want) {
		t.Errorf("%v", f.Message.Headers)
	}
	message := schemas.Envelope{Headers: want}
	if got := (schemas.Envelope{Headers: f.Message.Headers}); got.Fingerprint() != message.Fingerprint() {
		t.Errorf("%v, want %v", f.Message.Headers, want)
	}
}

func TestKicksRestoresProperties(t *testing.T) {
	f := readAs(t, "kicks", "orders-error", amqp.Table{kicksHeader: `{"error":"x","properties":{"content_type":"text/plain","content_encoding":"gzip",
		"correlation_id":"c","reply_to":"r","message_id":"m","type":"order","app_id":"shop","priority":4}}`})
	want := schemas.Properties{ContentType: "text/plain", ContentEncoding: "gzip", CorrelationID: "c", ReplyTo: "r", MessageID: "m", Type: "order", AppID: "shop", Priority: 4}
	if f.Message.Properties != want {
		t.Errorf("%+v", f.Message.Properties)
	}
}

func TestSneakersBodyIsThePayload(t *testing.T) {
	f, err := readSneakers(t, `{"error":"boom","payload":"`+base64.StdEncoding.EncodeToString([]byte("hello"))+`"}`)
	must(t, err)
	if string(f.Message.Body) != "hello" || f.Message.Properties.ContentType != "" {
		t.Errorf("%+v", f.Message)
	}
}

func TestSneakersBase64MayHaveLineBreaks(t *testing.T) {
	text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("hello ", 20)))
	f, err := readSneakers(t, `{"error":"boom","payload":"`+text[:61]+`\n `+text[61:]+`\n"}`)
	must(t, err)
	if string(f.Message.Body) != strings.Repeat("hello ", 20) {
		t.Errorf("%s", f.Message.Body)
	}
}

func TestBodiesThatHaveNoFailureOfSneakers(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"no JSON":             {"hello", "neither its header retry_info nor its body"},
		"another object":      {`{"order":7}`, "neither its header retry_info nor its body"},
		"no base64":           {`{"error":"x","payload":"***"}`, "its payload is no base64"},
		"properties in plain": {`{"error":"x","payload":"","properties":"***"}`, "neither its header retry_info nor its body"},
	} {
		if _, err := readSneakers(t, test.body); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}
