package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/internal/headertext"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// everyType is a table with every field type that the client can carry.
func everyType() amqp.Table {
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
	}
}

func everyProperty() Properties {
	return Properties{
		ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 7,
		CorrelationID: "corr", ReplyTo: "reply \xff", Expiration: "60000", MessageID: "m-1",
		Timestamp: time.Unix(1700000000, 0), Type: "order", UserID: "guest", AppID: "shop",
	}
}

func TestTableKeepsEveryType(t *testing.T) {
	table := everyType()
	got, err := tablejson.Parse(tablejson.Append(nil, table))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table, got, bitwise()); diff != "" {
		t.Errorf("a table changed on its way through JSON (-want +got):\n%s", diff)
	}
}

// bitwise compares floats by their bits and times by their seconds.
func bitwise() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
		cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
		cmp.Comparer(func(a, b time.Time) bool { return a.Unix() == b.Unix() }),
	}
}

func TestDocumentKeepsTheEvent(t *testing.T) {
	for name, body := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "json": []byte(`{"a":{"b":[1,2]}}`), "binary": {0, 1, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			want := failedEvent(body)
			want.Failure.Rule, want.QuarantinedFailure.Rule = "no-stock", "no-customer"
			got, err := ParseDocument(DocumentFormat{}.Append(nil, want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, bitwise(), cmpopts.IgnoreUnexported(Event{})); diff != "" {
				t.Errorf("an event changed on its way through its document (-want +got):\n%s", diff)
			}
		})
	}
}

func failedEvent(body []byte) Event {
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)
	state := State{Version: WireVersion, Message: "01J", EventID: "01K", Delay: 10 * time.Second, Waits: 3, WaitsSince: at, Replay: "job", ReplayOf: "01A", Parent: "v1:p"}
	state = state.Failed(at, 20*time.Millisecond, "orders", Failure{Message: "no stock of item 42", Type: "http.Status", Class: "default", Stack: "main.go:1"})
	e := Envelope{Exchange: "shop", RoutingKey: "order.\xff", Properties: everyProperty(), Headers: everyType(), Body: body}
	state.Fingerprint = e.Fingerprint()
	return Event{
		State: state, Action: RetryScheduled, TimeSource: TimeOfEvent, Sequence: 1234567, Ingested: at,
		Source: "rabbit@shop/", VHost: "/", Envelope: e, BodySize: len(body),
	}
}

func TestParseDocumentRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, source := range []string{`{`, `{}`, `{"watership":{"version":99}}`, `{"watership":{"version":1},"amqp":{"headers":[{"key":"a","float128":1}]}}`} {
		if _, err := ParseDocument([]byte(source)); err == nil {
			t.Errorf("ParseDocument(%s) gave no error", source)
		}
	}
}

// All headers are kept, but of many headers only some are searchable.
func TestManyHeadersAreNotSearchable(t *testing.T) {
	many, list := amqp.Table{}, make([]any, 2000)
	for n := range list {
		list[n] = int32(n)
		many[fmt.Sprintf("h%04d", n)] = int32(n)
	}
	for name, headers := range map[string]amqp.Table{
		"headers": many, "values of one": {"a": list}, "headers of one": {"a": many},
		"of several": {"a": list[:600], "b": many, "c": "last"},
	} {
		event := Event{Envelope: Envelope{Headers: headers}}
		document := DocumentFormat{}.Append(nil, event)
		var read struct {
			Headers any `json:"headers"`
		}
		if err := json.Unmarshal(document, &read); err != nil {
			t.Fatal(err)
		}
		if values := leaves(read.Headers); values != headertext.Most {
			t.Errorf("%s: %d values are searchable", name, values)
		}
		wantEnvelope(t, throughDocument(t, event).Envelope, event.Envelope)
	}
}

func leaves(value any) (count int) {
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			count += leaves(child)
		}
	case []any:
		for _, child := range v {
			count += leaves(child)
		}
	default:
		return 1
	}
	return count
}

// Elasticsearch runs out of memory when it indexes a document with more values than
// this, and would receive it again after each restart. A document with fewer values
// takes either store seconds.
func TestManyValuesAreNotSearchable(t *testing.T) {
	object := func(key, value string, values int) []byte {
		return []byte(`{"` + key + `":[` + strings.Repeat(value+",", values-1) + value + "]}")
	}
	const as, many = 0, 10_000_000 // the default, and practically no limit
	for name, c := range map[string]struct {
		body       []byte
		most       int
		searchable bool
	}{
		"5,000 values":               {object("a", `"seven"`, 5_000), as, true},
		"5,001 values":               {object("a", `"seven"`, 5_001), as, false},
		"5,001 values of objects":    {object("a", `{"b":[null]}`, 5_001), as, false},
		"100,000 values":             {object("a", `"seven"`, 100_000), many, true},
		"1,600,000 values":           {object("a", `"seven"`, 1_600_000), many, false},
		"1,600,000 numbers":          {object("a", "1", 1_600_000), many, false},
		"100,000 values, a long way": {object(strings.Repeat("k", 3000), "1", 100_000), many, false},
	} {
		t.Run(name, func(t *testing.T) {
			event := failedEvent(c.body)
			if is := bytes.Contains(DocumentFormat{MaxValues: c.most}.Append(nil, event), []byte(`,"json":{`)); is != c.searchable {
				t.Errorf("searchable: %v", is)
			}
			if parsed := throughDocument(t, event); !bytes.Equal(parsed.Envelope.Body, c.body) {
				t.Error("the body changed on its way through the document")
			}
		})
	}
}
