package amqpstream

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A message with encoded headers is sent as the client library would send it. A header of a
// publisher has the effect of EncodedHeaders neither within them nor beside others.
func TestEncodedHeadersAreSent(t *testing.T) {
	unreadable := wireTable("a", "?")
	nested := ofLength('x', wireTable("b", "V"))
	for name, test := range map[string]struct{ headers, want []byte }{
		"nothing":         {wireTable(EncodedHeaders, ofLength('x', nil)), wireTable()},
		"ordinary":        {wireTable(EncodedHeaders, ofLength('x', wireTable("a", "t\x01"))), wireTable("a", "t\x01")},
		"unreadable":      {wireTable(EncodedHeaders, ofLength('x', wireTable(UnreadableHeaders, ofLength('x', unreadable)))), unreadable},
		"of that name":    {wireTable(EncodedHeaders, ofLength('x', wireTable(EncodedHeaders, nested))), wireTable(EncodedHeaders, nested)},
		"beside others":   {wireTable(EncodedHeaders, nested, "a", "V"), nil},
		"after others":    {wireTable("a", "V", EncodedHeaders, nested), nil},
		"of another type": {wireTable(EncodedHeaders, ofLength('S', []byte("b"))), nil},
	} {
		t.Run(name, func(t *testing.T) {
			want := contentFrame(test.want)
			if test.want == nil && name != "nothing" {
				want = contentFrame(test.headers)
			}
			sent := &scripted{}
			c := New(sent, false)
			c.out.tuned = true
			if _, err := c.Write(contentFrame(test.headers)); err != nil || !bytes.Equal(sent.out.Bytes(), want) {
				t.Errorf("sent %q, %v\nwant %q", sent.out.Bytes(), err, want)
			}
		})
	}
}

// The client library reads what AppendTable has encoded, and AppendTable fails for a type
// that the library does not write.
func TestAppendTable(t *testing.T) {
	s := startFakeServer(t)
	for _, value := range []any{
		nil, true, false, int8(-1), uint8(1), int16(-1), uint16(1), int32(-1), uint32(1), int64(-1),
		float32(-1), float64(-1),
		amqp.Decimal{Scale: 2, Value: -100},
		"text", []byte("bytes"), time.Unix(1, 0),
		amqp.Table{"a": "b"},
		[]any{"a", amqp.Table{"b": []any{int32(1)}}},
	} {
		encoded, err := AppendTable(nil, amqp.Table{"name": value, "number": 17})
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.deliver(contentFrame(encoded))
		if want := (amqp.Table{"name": value, "number": int32(17)}); err != nil || !reflect.DeepEqual(d.Headers, want) {
			t.Errorf("%T: %v, %v", value, d.Headers, err)
		}
	}
	for _, value := range []any{uint64(1), struct{}{}, []any{uint64(1)}, amqp.Table{"a": map[string]any{}}} {
		if _, err := AppendTable(nil, amqp.Table{"name": value}); err == nil {
			t.Errorf("%T: no error", value)
		}
	}
	if err := s.client.Close(); err != nil {
		t.Error(err)
	}
	s.to.Close()
}
