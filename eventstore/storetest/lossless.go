package storetest

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

func testLossless(t *testing.T, s subject) {
	want := []schemas.Event{s.failedEvent(1, nil)}
	for i, body := range []string{"hello", `{"a":{"b":[1,2.50,"é"]},"a.b":{}}`, "\x00\x01\xff", "{ broken", "[1]\n", `{"a":1,"a":2}`} {
		want = append(want, s.failedEvent(i+2, []byte(body)))
	}
	s.createVisible(t, want...)
	sel := s.selectOwn(t, "")
	sel.Order = eventstore.BySequence
	got := s.read(t, sel)
	if len(got) != len(want) {
		t.Fatalf("got %d events, want %d", len(got), len(want))
	}
	for i := range want {
		wantEqual(t, want[i], got[i])
	}
}

func wantEqual(t *testing.T, want, got schemas.Event) {
	t.Helper()
	if diff := cmp.Diff(want, got, exactOptions()); diff != "" {
		t.Errorf("an event changed in the store (-want +got):\n%s", diff)
	}
}

// exactOptions compares floats by their bits and times to the microsecond, the precision of a
// document. It ignores fields that documents do not have.
func exactOptions() cmp.Options {
	return cmp.Options{
		cmpopts.IgnoreUnexported(schemas.Event{}),
		cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
		cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
		cmp.Comparer(func(a, b time.Time) bool { return a.Unix() == b.Unix() && a.Nanosecond()/1e3 == b.Nanosecond()/1e3 }),
	}
}

// failedEvent is an event with all fields set.
func (s subject) failedEvent(n int, body []byte) schemas.Event {
	event := s.event(n)
	event.Action, event.TimeSource = schemas.RetryScheduled, wire.TimeOfEvent
	event.Envelope = schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.\xff", Properties: everyProperty(), Headers: everyHeaderType(), Body: body,
	}
	event.BodySize = len(body)
	event.Fingerprint = event.Envelope.Fingerprint()
	event.State = event.Failed(event.Time, 20*time.Millisecond, "orders",
		schemas.Failure{Message: "no stock of item 42", Type: "http.Status", Class: "default", Stack: "main.go:1\n\tmain.main"})
	event.Message, event.Parent = "01J", "v1:parent"
	event.Delay, event.Replay, event.ReplayOf = 10*time.Second, "job", "01A"
	event.Subjects = []string{"subject_0123456789abcdef0123", "subject_2"}
	return event
}

func everyProperty() schemas.Properties {
	return schemas.Properties{
		ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 7,
		CorrelationID: "corr", ReplyTo: "reply \xff", Expiration: "60000", MessageID: "m-1",
		Timestamp: time.Unix(1700000000, 0), Type: "order", UserID: "guest", AppID: "shop",
	}
}

// everyHeaderType is a table with every field type of the AMQP client.
func everyHeaderType() amqp.Table {
	return amqp.Table{
		"bool": true, "int8": int8(-8), "uint8": uint8(200), "int16": int16(-16),
		"uint16": uint16(60000), "int32": int32(-32), "uint32": uint32(4e9),
		"int64": int64(math.MinInt64), "float32": float32(0.1), "float64": math.Copysign(0, -1),
		"nan": math.Float64frombits(0x7ff8000000000123), "inf": float32(math.Inf(-1)),
		"decimal": amqp.Decimal{Scale: 2, Value: -12345}, "string": "é \x00 \" \\ \u2028",
		"not utf-8 \xff": "\xfe\xff", "bytes": []byte{0, 255}, "none": nil, "": "an empty key",
		"time": time.Unix(math.MaxInt64, 0), "year 0": time.Unix(-62167219200, 0),
		"array": []any{int32(1), "two", []any{}, amqp.Table{"deep": nil}},
		"table": amqp.Table{"a.b": amqp.Table{"c": int64(1)}}, "tenant": "acme",
		"a.b": "dotted", "nul \x00 key": "kept",
	}
}
