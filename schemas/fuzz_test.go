package schemas

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/tablejson"
)

// FuzzTable: any table is unchanged after a document.
func FuzzTable(f *testing.F) {
	for kind := range byte(20) {
		f.Add([]byte{1, kind, 3, 'k', 'e', 'y', 0xff, 0xc0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	}
	f.Add([]byte{3, 16, 0, 2, 17, 1, '.', 3, 2, 0, 4, 14, 2, 'a', 'b', 5, 0xff, 0xfe, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		want := (&tableMaker{data}).table(0)
		got, err := tablejson.Parse(tablejson.Append(nil, want))
		if err != nil {
			t.Fatalf("%#v: %v", want, err)
		}
		if diff := cmp.Diff(want, got, bitwise(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("a table changed on its way through JSON (-want +got):\n%s", diff)
		}
		event := failedEvent(nil)
		event.Envelope.Headers = want
		if parsed := throughDocument(t, event); parsed.Envelope.Fingerprint() != event.Envelope.Fingerprint() {
			t.Errorf("%#v has another fingerprint after its document", want)
		}
	})
}

// tableMaker makes a table from arbitrary bytes.
type tableMaker struct{ data []byte }

func (m *tableMaker) take(n int) []byte {
	taken := make([]byte, n)
	m.data = m.data[copy(taken, m.data):]
	return taken
}

func (m *tableMaker) table(depth int) amqp.Table {
	table := amqp.Table{}
	for n := m.take(1)[0] % 8; n > 0; n-- {
		kind := m.take(1)[0]
		table[m.text()] = m.value(kind, depth)
	}
	return table
}

func (m *tableMaker) text() string { return string(m.take(int(m.take(1)[0] % 32))) }

func (m *tableMaker) value(kind byte, depth int) any {
	bits := binary.BigEndian.Uint64(m.take(8))
	switch kind % 18 {
	case 0:
		return nil
	case 1:
		return bits&1 == 1
	case 2:
		return int8(bits)
	case 3:
		return uint8(bits)
	case 4:
		return int16(bits)
	case 5:
		return uint16(bits)
	case 6:
		return int32(bits)
	case 7:
		return uint32(bits)
	case 8:
		return int64(bits)
	case 9:
		return math.Float32frombits(uint32(bits))
	case 10:
		return math.Float64frombits(bits)
	case 11:
		return amqp.Decimal{Scale: uint8(bits >> 32), Value: int32(bits)}
	case 12:
		return time.Unix(int64(bits), 0)
	case 13:
		return []byte(m.text())
	case 14, 15:
		return m.text()
	case 16:
		if depth < 8 {
			return m.table(depth + 1)
		}
	case 17:
		if depth < 8 {
			return []any{m.value(byte(bits), depth+1), m.value(byte(bits>>8), depth+1)}
		}
	}
	return int64(0)
}

func throughDocument(t *testing.T, e Event) Event {
	t.Helper()
	source := DocumentFormat{Labels: []string{"tenant"}, NumericLabels: []string{"int32"}}.Append(nil, e)
	if problem := unacceptable(source); problem != "" {
		t.Fatalf("the document has %s: %s", problem, source)
	}
	parsed, err := ParseDocument(source)
	if err != nil {
		t.Fatalf("%v: %s", err, source)
	}
	return parsed
}

// unacceptable returns the reason why Elasticsearch would refuse a document's
// syntax.
func unacceptable(source []byte) string {
	switch {
	case !json.Valid(source):
		return "no valid JSON"
	case !utf8.Valid(source):
		return "bytes that are not UTF-8"
	case bytes.ContainsAny(source, "\n\r"):
		return "more than one line"
	case duplicateKey(source):
		return "a duplicate key"
	}
	return ""
}

func duplicateKey(source []byte) bool {
	type level struct {
		keys  map[string]bool
		isKey bool
	}
	var open []level
	for decoder := json.NewDecoder(bytes.NewReader(source)); ; {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 && open[len(open)-1].keys != nil {
			top := &open[len(open)-1]
			if top.isKey {
				if top.keys[token.(string)] {
					return true
				}
				top.keys[token.(string)], top.isKey = true, false
				continue
			}
			top.isKey = true
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{map[string]bool{}, true})
		case json.Delim('['):
			open = append(open, level{})
		}
	}
}

// FuzzBody: any bytes are unchanged after a document, whose syntax Elasticsearch
// accepts.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		"", "text", `{"a":1}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\u0000":1}`, "{\n\"a\" :\r[1, -0.5e+3,null]}\t", "\xff", "\u2028é",
		`{"\ud800":"\udfff"}`, `{"":{".":[[{}],true]}}`, `{"a":01}`, `{"a":1,}`, `{,}`, `[1]`, `{"a":"\x"}`, `{"a":"` + "\x01" + `"}`, `{"a"`, `{"a":tru}`, `{} {}`, "\x00",
		`{"12345678\"":"1234567\\","é12345678":"12345678"}`,
		`{"a":{"a":1,"b":{"a":1}},"b":1}`, `{"a":{"b":1},"a":1}`, `{"\u0061":1,"a":2}`, `{"\u0061":1,"\u0061":2}`, `{"a":{"b":1,"c":1,"b":1}}`,
		`{"!":1,"b":{"a":1},"a":2}`, `{"a":1,"b":{"!":1,"a":2}}`, `{"!":1,"a":2}`, // ! and a have the same mark
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		event := failedEvent(body)
		if parsed := throughDocument(t, event); !bytes.Equal(parsed.Envelope.Body, body) {
			t.Errorf("body %q came back as %q", body, parsed.Envelope.Body)
		}
	})
}

// FuzzParseDocument: any bytes are an event or an error that says why not.
func FuzzParseDocument(f *testing.F) {
	f.Add(DocumentFormat{}.Append(nil, goldenEvent()))
	f.Add(DocumentFormat{}.Append(nil, failedEvent([]byte{0xff})))
	for _, source := range []string{"", "{", "null", "[]", `{"watership":{"version":2}}`, `{"watership":{"version":1},"body":{"raw":"?"}}`} {
		f.Add([]byte(source))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		event, err := ParseDocument(source)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		again, err := ParseDocument(DocumentFormat{}.Append(nil, event))
		if err != nil {
			t.Fatalf("what was read cannot be written and read: %v", err)
		}
		if diff := cmp.Diff(event.Envelope, again.Envelope, bitwise(), cmpopts.EquateEmpty()); diff != "" && event.BodyIn == BodyHere {
			t.Errorf("an envelope changed on its way through its document (-want +got):\n%s", diff)
		}
	})
}
