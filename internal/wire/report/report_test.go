package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// Clients in languages with fewer types than AMQP write numbers and texts as they can.
func TestValuesOfOtherLanguages(t *testing.T) {
	for _, delay := range []any{
		int8(100), int16(100), int32(100), int64(100), uint8(100), uint16(100), uint32(100), 100, float32(100), float64(100), "100", []byte("100"),
	} {
		told, err := Parse(schemas.Envelope{RoutingKey: "orders", Headers: amqp.Table{"tenant": "acme", Header: amqp.Table{
			"outcome": []byte("retry"), "delay": delay, "error": nil, "exchange": []byte("shop"), "routing-key": "",
			"progress": "", "expiration": delay, "x-death": []any{amqp.Table{"queue": "a"}},
		}}})
		if err != nil || told.Outcome != Retry || told.Delay == nil || *told.Delay != 100*time.Millisecond || told.Progress == nil ||
			told.Message.Exchange != "shop" || told.Message.RoutingKey != "" || told.Message.Properties.Expiration != "100" ||
			len(told.Message.Headers) != 2 || told.Message.Headers["x-death"] == nil {
			t.Errorf("a delay of type %T: %+v, %v", delay, told, err)
		}
	}
	long, err := Parse(schemas.Envelope{Headers: amqp.Table{Header: amqp.Table{
		"outcome": "retry", "delay": "18446744073709551615", "exchange": "", "routing-key": strings.Repeat("k", 255),
	}}})
	if err == nil {
		t.Errorf("a delay beyond 64 bits counts: %+v", long)
	}
}

// FuzzParse: a report of any form keeps the message, and gives an outcome or an error.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`{"watership-report":{"outcome":"handled","exchange":"shop","routing-key":"k"}}`,
		`{"watership-report":{"outcome":"retry","error":"no","error-type":"T","class":"c","stack":"s","delay":1500,"progress":"p","exchange":"","routing-key":"orders","expiration":"60000","x-death":[]}}`,
		`{"watership-report":{"outcome":7,"delay":-1.5,"exchange":null,"routing-key":[1],"progress":{}}}`, `{"watership-report":[]}`, `{"tenant":"acme"}`,
	} {
		f.Add(tableJSON(f, text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		headers, err := tablejson.Parse(text)
		if err != nil {
			t.Skip()
		}
		arrived := schemas.Envelope{Exchange: "watership.report", RoutingKey: "orders", Headers: headers, Body: []byte("x")}
		before := len(headers)
		told, err := Parse(arrived)
		switch told.Outcome {
		case Handled, Retry, Poison, Unavailable:
		default:
			if err == nil {
				t.Errorf("outcome %q is none", told.Outcome)
			}
		}
		if _, left := told.Message.Headers[Header]; left || string(told.Message.Body) != "x" || len(headers) != before {
			t.Errorf("the message is %+v", told.Message)
		}
		if err != nil && (told.Message.Exchange != "" || told.Message.RoutingKey != "orders") {
			t.Errorf("a report that cannot be read has the origin %q, %q", told.Message.Exchange, told.Message.RoutingKey)
		}
		for _, text := range []string{told.Error, told.ErrorType, told.Class, told.Stack} {
			if !utf8.ValidString(text) {
				t.Errorf("%q is no text", text)
			}
		}
		if err == nil {
			p := told.Publishing()
			again, err := Parse(schemas.Envelope{RoutingKey: "orders", Headers: p.Headers, Body: p.Body})
			again.Message.Headers, told.Message.Headers = nil, nil // may have values that are not equal to themselves
			if diff := cmp.Diff(told, again); diff != "" || err != nil {
				t.Errorf("the report is another one when it is published (-want +got), %v:\n%s", err, diff)
			}
		}
		if told.Delay != nil && (*told.Delay < 0 || *told.Delay > 24*time.Hour) {
			t.Errorf("a delay of %s", *told.Delay)
		}
	})
}

// tableJSON returns an object of JSON as a table, whose types are then in its JSON.
func tableJSON(f *testing.F, text string) []byte {
	f.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		f.Fatal(err)
	}
	return tablejson.Append(nil, table(object))
}

func table(object map[string]any) amqp.Table {
	made := amqp.Table{}
	for name, value := range object {
		switch v := value.(type) {
		case map[string]any:
			value = table(v)
		case []any:
			for i, each := range v {
				if object, is := each.(map[string]any); is {
					v[i] = table(object)
				}
			}
		}
		made[name] = value
	}
	return made
}

// A time that is wrong is unknown, and changes no outcome: the attempt was handled all the same.
func TestWrongTimesAreUnknown(t *testing.T) {
	for _, wrong := range []any{"12.5", -3, time.Now(), "soon", uint64(1) << 62, amqp.Table{}, int64(8 * 24 * time.Hour / time.Millisecond)} {
		told, err := Parse(schemas.Envelope{Headers: amqp.Table{Header: amqp.Table{
			"outcome": "handled", "exchange": "", "routing-key": "orders", "duration": wrong, "started-at": wrong,
		}}})
		if err != nil || told.Outcome != Handled || told.Duration != 0 {
			t.Errorf("%v: %+v, %v", wrong, told, err)
		}
	}
}
