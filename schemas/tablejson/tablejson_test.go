package tablejson_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/tablejson"
)

// The JSON of each type is part of documents that stores keep: it never changes.
func TestJSONOfEachType(t *testing.T) {
	for want, value := range map[string]any{
		`"void":true`:                                     nil,
		`"bool":false`:                                    false,
		`"int8":-128`:                                     int8(math.MinInt8),
		`"uint8":255`:                                     uint8(math.MaxUint8),
		`"int16":-32768`:                                  int16(math.MinInt16),
		`"uint16":65535`:                                  uint16(math.MaxUint16),
		`"int32":-2147483648`:                             int32(math.MinInt32),
		`"uint32":4294967295`:                             uint32(math.MaxUint32),
		`"int64":-9223372036854775808`:                    int64(math.MinInt64),
		`"float32":0.1`:                                   float32(0.1),
		`"float64":-0`:                                    math.Copysign(0, -1),
		`"float64":1.7976931348623157e+308`:               math.MaxFloat64,
		`"float64_bits":9221120237041090561`:              math.NaN(),
		`"float32_bits":4286578688`:                       float32(math.Inf(-1)),
		`"decimal":{"scale":2,"value":-12345}`:            amqp.Decimal{Scale: 2, Value: -12345},
		`"string":"é\" \u0000"`:                           "é\" \x00",
		`"string64":"/w=="`:                               "\xff",
		`"bytes":"AP8="`:                                  []byte{0, 255},
		`"time":-62167219200`:                             time.Unix(-62167219200, 0),
		`"array":[]`:                                      []any{},
		`"array":[{"int32":1},{"array":[]}]`:              []any{int32(1), []any{}},
		`"table":[]`:                                      amqp.Table{},
		`"table":[{"key":"","table":[]}]`:                 amqp.Table{"": amqp.Table{}},
		`"array":[{"table":[{"key":"a.b","bool":true}]}]`: []any{amqp.Table{"a.b": true}},
	} {
		table := amqp.Table{"k": value}
		text := tablejson.Append(nil, table)
		if got := string(text); got != `[{"key":"k",`+want+`}]` {
			t.Errorf("%T: got %s, want %s", value, got, want)
		}
		read, err := tablejson.Parse(text)
		if diff := cmp.Diff(table, read, exactly()); diff != "" || err != nil {
			t.Errorf("%s: %v, read as (-want +got):\n%s", text, err, diff)
		}
	}
}

// exactly compares floats by their bits, since a NaN has a payload.
func exactly() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
		cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	}
}

// An int has 32 bits on the wire, where the client truncates it.
func TestIntIsWhatTheClientSends(t *testing.T) {
	read, err := tablejson.Parse(tablejson.Append(nil, amqp.Table{"n": 1<<32 + 7}))
	if err != nil || read["n"] != int32(7) {
		t.Errorf("got %T %v, %v", read["n"], read["n"], err)
	}
}

// Two tables have the same JSON exactly if they are equal: it is sorted, whatever the
// order of the map.
func TestEqualTablesHaveEqualJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		table := randomTable(random, 0)
		text := string(tablejson.Append(nil, table))
		if !json.Valid([]byte(text)) || strings.ContainsAny(text, "\n\r") {
			t.Fatalf("no line of JSON: %s", text)
		}
		read, err := tablejson.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if again := string(tablejson.Append(nil, read)); again != text {
			t.Fatalf("%s became %s", text, again)
		}
		if len(table) == 0 {
			continue
		}
		table["another"] = "value"
		if string(tablejson.Append(nil, table)) == text {
			t.Fatalf("another table has the same JSON: %s", text)
		}
	}
}

func randomTable(random *rand.Rand, depth int) amqp.Table {
	table := amqp.Table{}
	for range random.IntN(6) {
		table[randomText(random)] = randomValue(random, depth)
	}
	return table
}

func randomText(random *rand.Rand) string {
	text := make([]byte, random.IntN(6))
	for i := range text {
		text[i] = byte(random.IntN(256))
	}
	return string(text)
}

func randomValue(random *rand.Rand, depth int) any {
	if depth < 4 && random.IntN(3) == 0 {
		if random.IntN(2) == 0 {
			return randomTable(random, depth+1)
		}
		return []any{randomValue(random, depth+1), randomValue(random, depth+1)}
	}
	bits := random.Uint64()
	values := []any{
		nil, bits&1 == 0, int8(bits), uint8(bits), int16(bits), uint16(bits), int32(bits), uint32(bits), int64(bits),
		math.Float32frombits(uint32(bits)), math.Float64frombits(bits),
		amqp.Decimal{Scale: uint8(bits), Value: int32(bits)},
		time.Unix(int64(bits), 0), randomText(random), []byte(randomText(random)),
	}
	return values[random.IntN(len(values))]
}

// A fault in a table is refused with the header in which it is.
func TestParseNamesTheFault(t *testing.T) {
	for text, want := range map[string]string{
		`[{"key":"n","float128":1}]`:                 `header "n": no type that this version knows`,
		`[{"key":"n"}]`:                              `header "n": no type that this version knows`,
		`[{"key":"n","void":false}]`:                 `header "n": no type that this version knows`,
		`[{"key":"n","table":[{"key":"in","x":1}]}]`: `header "in": no type that this version knows`,
		`[{"key":"n","int8":128}]`:                   "expected an integer of 8 bits at byte 22",
		`[{"key":"n","uint8":-1}]`:                   "expected an unsigned integer of 8 bits",
		`[{"key":"n","int32":"three"}]`:              "expected a value at byte 20",
		`[{"key":"n","bytes":"?"}]`:                  "expected base64",
		`[{"key":"n","decimal":{"scale":256}}]`:      "expected an unsigned integer of 8 bits",
		`[{"key":"n","int8":1}`:                      "expected",
		`[{"key":"n","int8":1}] []`:                  "expected no more after the value at byte 23",
		`{"key":"n"}`:                                "expected [ at byte 0",
	} {
		table, err := tablejson.Parse([]byte(text))
		if err == nil || table != nil || !strings.HasPrefix(err.Error(), "parsing a header table: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v and the error %v, want one about %q", text, table, err, want)
		}
	}
}

// AMQP clients do not send an empty table, so it is none when it is read.
func TestEmptyTableIsNone(t *testing.T) {
	for _, table := range []amqp.Table{nil, {}} {
		if read, err := tablejson.Parse(tablejson.Append(nil, table)); read != nil || err != nil {
			t.Errorf("%#v became %#v, %v", table, read, err)
		}
	}
}
