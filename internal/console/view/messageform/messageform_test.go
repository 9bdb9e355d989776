package messageform_test

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/console/view/messageform"
	"github.com/watershipmq/watership/internal/operate/transfer"
	"github.com/watershipmq/watership/schemas"
)

// sent returns the fields as a browser sends them: fields of one line have no line breaks,
// and those of several have \r\n.
func sent(f messageform.Form) url.Values {
	oneLine := strings.NewReplacer("\r", "", "\n", "").Replace
	values := url.Values{
		"queue": {oneLine(f.Queue)}, "exchange": {oneLine(f.Exchange)}, "routing_key": {oneLine(f.RoutingKey)}, "body_kind": {string(f.BodyKind)},
		"body": {strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n", "\r", "\r\n", "\x00", "\ufffd").Replace(f.Body)},
	}
	if f.CRLF {
		values.Set("crlf", "yes")
	}
	for name, value := range f.Properties {
		values.Set("property."+name, oneLine(value))
	}
	for i, h := range f.Headers {
		row := "header." + strconv.Itoa(i)
		values.Set(row+".name", oneLine(h.Name))
		values.Set(row+".type", h.Type)
		values.Set(row+".value", oneLine(h.Value))
		if h.IsEncoded {
			values.Set(row+".encoded", "yes")
		}
	}
	return values
}

// A copy that nobody has edited has the headers of the original with their types, and its
// body byte for byte.
func TestAnUneditedCopyIsExact(t *testing.T) {
	headers := amqp.Table{
		"text": "a\tb", "lines": "a\r\nb\x00", "not utf-8": "\xff", "script": `</script>"'`, "right to left": "\u202e", "": "no name", "n\nl": "x", "\xff": "y",
		"i8": int8(-1), "u8": uint8(255), "i16": int16(2), "u16": uint16(3), "i32": int32(4), "u32": uint32(5), "i64": int64(math.MinInt64),
		"f32": float32(0.1), "f64": 1e300, "nan": math.NaN(), "inf": float32(math.Inf(1)), "bool": false, "void": nil, "bytes": []byte{0, 255},
		"decimal": amqp.Decimal{Scale: 2, Value: -5}, "time": time.Unix(1700000000, 0), "early": time.Unix(-62167219201, 0),
		"table": amqp.Table{"x": int32(1), "y": []any{true, "\x01"}}, "array": []any{}, "empty": "", "CC": []any{"other"},
	}
	for body, kind := range map[string]messageform.BodyKind{
		"": messageform.Text, "text": messageform.Text, "a\nb": messageform.Text, "a\r\nb\r\n": messageform.Text, "\n\nx": messageform.Text,
		"\u202etext": messageform.Text, "<script>alert(1)</script>\n": messageform.Text, strings.Repeat("x", 192<<10): messageform.Text,
		"a\r\nb\nc": messageform.Base64, "a\rb": messageform.Base64, "\x00": messageform.Base64, "\xff\xfe": messageform.Base64,
	} {
		e := schemas.Envelope{Exchange: "shop", RoutingKey: "order.placed", Headers: headers, Body: []byte(body), Properties: schemas.Properties{
			CorrelationID: "c", Type: "t", ContentType: "text/plain", ContentEncoding: "utf-8", AppID: "a", Expiration: "1000", Priority: 3,
			MessageID: "m", ReplyTo: "r", Timestamp: time.Unix(1, 0),
		}}
		form := messageform.New(e, true)
		p, err := messageform.Read(sent(form)).Publication("m")
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Text + string(p.Base64); got != body || form.BodyKind != kind {
			t.Errorf("the body %.20q became %.20q (%s)", body, got, form.BodyKind)
		}
		table, err := transfer.Headers(p.Headers, p.Typed)
		if diff := cmp.Diff(headers, table, cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })); diff != "" || err != nil {
			t.Fatalf("%v, headers (-want +got):\n%s", err, diff)
		}
		q := p.Properties
		if q.CorrelationID != "c" || q.Type != "t" || q.ContentType != "text/plain" || q.ContentEncoding != "utf-8" || q.AppID != "a" || q.Expiration != "1000" || q.Priority != 3 {
			t.Errorf("%+v", q)
		}
		if q.MessageID+q.ReplyTo != "" || !q.Timestamp.IsZero() {
			t.Errorf("a copy is another message, with the time, id and address for replies of the original: %+v", q)
		}
		if p.Exchange != "shop" || p.RoutingKey != "order.placed" || p.Original != "m" {
			t.Errorf("%+v", p)
		}
	}
}

// Headers of Watership and RabbitMQ are no part of a copy, and causation-id is that of the
// copy.
func TestHeadersThatAreNotCopied(t *testing.T) {
	form := messageform.New(schemas.Envelope{Headers: amqp.Table{
		"x-death": []any{}, "watership-queue": "orders", "causation-id": "other", "tenant": "acme", "x-delivery-count": int64(3),
	}}, true)
	if len(form.Headers) != 1 || form.Headers[0].Name != "tenant" {
		t.Errorf("%+v", form.Headers)
	}
}

// A body that is too large for the form is sent unseen, and a missing one is written anew.
func TestBodiesThatCannotBeEdited(t *testing.T) {
	large := messageform.New(schemas.Envelope{Body: make([]byte, 192<<10+1)}, true)
	p, err := messageform.Read(sent(large)).Publication("m")
	if err != nil || !p.OriginalBody || p.Text != "" || large.Body != "" {
		t.Errorf("%s, %v, %v", large.BodyKind, p.OriginalBody, err)
	}
	if none := messageform.New(schemas.Envelope{}, false); none.BodyKind != messageform.Text || none.Body != "" {
		t.Errorf("%+v", none)
	}
}

// A routing key that is no text is shown as one, and named.
func TestFieldsThatCannotBeKept(t *testing.T) {
	form := messageform.New(schemas.Envelope{Exchange: "shop", RoutingKey: "a\xffb\n", Properties: schemas.Properties{Type: "\x00"}}, true)
	if diff := cmp.Diff([]string{"routing_key", "type"}, form.Inexact); diff != "" || form.RoutingKey != "a\ufffdb " {
		t.Errorf("%q (-want +got):\n%s", form.RoutingKey, diff)
	}
}

func TestAQueueAlone(t *testing.T) {
	p, err := messageform.Form{Exchange: "shop", RoutingKey: "k", Queue: "orders"}.Publication("m")
	if p.Exchange != "" || p.RoutingKey != "orders" || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestMistakes(t *testing.T) {
	for want, change := range map[string]func(*messageform.Form){
		`header "n": expected a value of type int32, found "three"`: func(f *messageform.Form) {
			f.Headers = []messageform.Header{{Name: "n", Type: "int32", Value: "three"}}
		},
		`header "n" has the type "int128"`: func(f *messageform.Form) {
			f.Headers = []messageform.Header{{Name: "n", Type: "int128", Value: "1"}}
		},
		`header "n" is there twice`: func(f *messageform.Form) {
			f.Headers = []messageform.Header{{Name: "n", Type: "string"}, {Name: "n", Type: "bool", Value: "true"}}
		},
		`priority "256"`:        func(f *messageform.Form) { f.Properties["priority"] = "256" },
		`timestamp "yesterday"`: func(f *messageform.Form) { f.Properties["timestamp"] = "yesterday" },
		`body: expected base64`: func(f *messageform.Form) { f.BodyKind, f.Body = messageform.Base64, "?" },
	} {
		form := messageform.New(schemas.Envelope{}, true)
		change(&form)
		if _, err := messageform.Read(sent(form)).Publication("m"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
