package schemas

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// goldenEnvelopes are messages with the fingerprints and ids below.
func goldenEnvelopes() map[string]Envelope {
	order := Envelope{
		Exchange: "shop", RoutingKey: "order.created", Body: []byte(`{"order":42}`),
		Properties: Properties{ContentType: "application/json", MessageID: "m-42"},
		Headers:    amqp.Table{"tenant": "acme", "attempt": int32(3)},
	}
	stamped := order
	stamped.Headers = amqp.Table{"tenant": "acme", "attempt": int32(3), "timestamp_in_ms": int64(1700000000123)}
	stamped.Properties.Timestamp = time.Unix(1700000000, 0)
	return map[string]Envelope{
		"nothing at all":         {},
		"an order":               order,
		"everything":             {Exchange: "shop", RoutingKey: "order.\xff", Properties: everyProperty(), Headers: everyType(), Body: []byte{0, 1, 0xff}},
		"broker's time":          stamped,
		"int32 and int64 differ": {Headers: amqp.Table{"n": int64(3)}},
		"a body of one space":    {Body: []byte(" ")},
	}
}

// These values identify messages that are in stores and on the wire. They never
// change; a change of the encoding needs a new version.
func TestGoldenFingerprints(t *testing.T) {
	want := map[string]string{
		"nothing at all":         "v1:8186b22817748a11b06758389bdf4adc1bd3cf14a12e9ff39911820838c16e6f",
		"an order":               "v1:2c3e2c3f88073bf38cfdb611b0bce855cac86e047eeecb2ee57083b67f08d401",
		"everything":             "v1:b4460c9f07a5f63a253162b5e1c7fc7aa416d6f3b2165ac4880ba8f28ebe94d8",
		"broker's time":          "v1:2c3e2c3f88073bf38cfdb611b0bce855cac86e047eeecb2ee57083b67f08d401", // same as without it
		"int32 and int64 differ": "v1:d004957a9fce507a2b937a50d5ff82f342bb4509305bbc9aa5db3725a0acf3f7",
		"a body of one space":    "v1:f8c300768dec7e81fa8a55d7902812aaca98b603f9ab5252871302342755ea19",
	}
	for name, e := range goldenEnvelopes() {
		if got := e.Fingerprint(); got != want[name] {
			t.Errorf("%s: got %s, want %s", name, got, want[name])
		}
	}
}

func TestGoldenEventIDs(t *testing.T) {
	order := goldenEnvelopes()["an order"]
	anonymous := order
	anonymous.Properties.MessageID = ""
	replayed := order
	replayed.Headers = DefaultFrameMax.WrapForExchange(order, State{Fingerprint: order.Fingerprint(), Replay: "job-1", ReplayOf: "01A"}, "").Headers
	const id = "rabbit@shop/:v1:2c3e2c3f88073bf38cfdb611b0bce855cac86e047eeecb2ee57083b67f08d401"
	const anonymousID = "rabbit@shop/:v1:83ecb52ac129d60a766447f3727cea5f185092679a1655e08ae4836e5644a805:1700000000000000"
	for name, test := range map[string]struct {
		e    Envelope
		want string
	}{
		"with a message id": {order, id},
		"without one":       {anonymous, anonymousID},
		"replayed":          {replayed, id + ":job-1"},
	} {
		event := Decoder{Source: "rabbit@shop/"}.Tapped(delivery(test.e), time.Unix(1700000000, 0), 1700000000000000)
		if event.EventID != test.want {
			t.Errorf("%s: got %s, want %s", name, event.EventID, test.want)
		}
	}
	moved := Decoder{Source: "rabbit@shop/"}.Tapped(delivery(anonymous), time.Unix(1700000000, 0), 1699999999999999).WithSequence(1700000000000000)
	if want := anonymousID; moved.EventID != want || moved.Sequence != 1700000000000000 {
		t.Errorf("in another place: got %s at %d, want %s", moved.EventID, moved.Sequence, want)
	}
	second := Decoder{Source: "rabbit@shop/"}.Tapped(delivery(order), time.Unix(1700000000, 0), 1700000000000000).WithUniqueID()
	if want := id + ":1700000000000000"; second.EventID != want || second.IDFromContent() {
		t.Errorf("a second, equal message: got %s, want %s", second.EventID, want)
	}
}

// delivery returns an envelope as a consumer receives it.
func delivery(e Envelope) amqp.Delivery {
	p := e.Publishing()
	return amqp.Delivery{
		Exchange: e.Exchange, RoutingKey: e.RoutingKey, Headers: p.Headers, Body: p.Body,
		ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Expiration: p.Expiration,
		MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId, AppId: p.AppId,
	}
}

// testdata/document.json is an example of a document, for readers as well.
func TestGoldenDocument(t *testing.T) {
	const file = "testdata/document.json"
	format := DocumentFormat{Labels: []string{"tenant", "a.b"}, NumericLabels: []string{"attempt"}}
	var got bytes.Buffer
	if err := json.Indent(&got, format.Append(nil, goldenEvent()), "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	if os.Getenv("WATERSHIP_TEST_UPDATE") == "1" {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the document is not as in %s: a change of it needs a new DocumentVersion (WATERSHIP_TEST_UPDATE=1 writes it):\n%s", file, got.Bytes())
	}
}

// goldenEvent is a second failed attempt at an order.
func goldenEvent() Event {
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)
	e := Envelope{
		Exchange: "shop", RoutingKey: "order.created",
		Properties: Properties{
			ContentType: "application/json", DeliveryMode: 2, Priority: 5, CorrelationID: "cart-7", ReplyTo: "answers",
			Expiration: "60000", MessageID: "m-42", Timestamp: time.Unix(1777863720, 0), Type: "order", AppID: "web",
		},
		Headers: amqp.Table{
			"tenant": "acme", "attempt": int32(3), "a.b": []byte("bytes"), "weight": 1.5, "void": nil,
			"price": amqp.Decimal{Scale: 2, Value: 1999}, "latin1": "caf\xe9", "when": time.Unix(1777863720, 0),
			"nested": amqp.Table{"list": []any{int8(1), "two"}}, "CC": []any{"audit"},
			"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		Body: []byte(`{"order": 42, "items": [{"sku": "a-1", "count": 2}]}`),
	}
	state := State{Version: WireVersion, Message: "01J", EventID: "01K", Parent: "v1:c0ffee", Fingerprint: e.Fingerprint()}
	state = state.Failed(at.Add(-10*time.Second), 0, "orders", Failure{Message: "timeout", Class: "default"})
	state = state.Failed(at, 20*time.Millisecond, "orders",
		Failure{Message: "no stock of item 42", Type: "http.Status", Class: "ordering", Stack: "main.go:1"})
	state.Delay = 10 * time.Second
	return Event{
		State: state, Action: RetryScheduled, TimeSource: TimeOfEvent, Sequence: 1777863721130000,
		Ingested: at.Add(time.Second), Source: "rabbit@shop/", VHost: "/", Envelope: e, BodySize: len(e.Body),
	}
}

// An id of another event may have the greatest length that Elasticsearch accepts.
func TestGoldenDerivedIDs(t *testing.T) {
	longest := strings.Repeat("x", 512)
	for _, test := range []struct{ of, want string }{
		{"abc", "job:abc"},
		{longest[:508], "job:" + longest[:508]},
		{longest[:509], "job:dc95dba3edde35ac1ce6559483f41afca1aefe3cb2977669a7ba4f19fbbe65e7"},
		{longest, "job:64164443bb63e338ef1cfdb12a57117cd1212270cc935a798f6e8a665cdf4659"},
	} {
		if got := DerivedID("job", test.of); got != test.want {
			t.Errorf("of %d bytes: %s, want %s", len(test.of), got, test.want)
		}
	}
}
