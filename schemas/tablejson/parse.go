package tablejson

import (
	"errors"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/jsonscan"
)

// Parse parses the JSON of Append. An empty list is a nil table, since
// AMQP clients do not send an empty table.
func Parse(data []byte) (amqp.Table, error) {
	r := jsonscan.New(data)
	table := Read(r)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("parsing a header table: %w", err)
	}
	if len(table) == 0 {
		return nil, nil
	}
	return table, nil
}

// Read is Parse for a table inside a larger JSON value. An empty list is an empty table.
func Read(r *jsonscan.Reader) amqp.Table {
	table := amqp.Table{}
	r.Array(func() {
		key, value := readMember(r)
		table[key] = value
	})
	return table
}

func readArray(r *jsonscan.Reader) []any {
	values := []any{}
	r.Array(func() {
		_, value := readMember(r)
		values = append(values, value)
	})
	return values
}

// readMember reads one member of a table, or one value of an array.
func readMember(r *jsonscan.Reader) (key string, value any) {
	typed := false
	r.Object(func(name []byte) {
		switch string(name) {
		case "key":
			key = r.Text()
		case "key64":
			key = string(r.Bytes())
		default:
			value, typed = readTyped(r, string(name))
		}
	})
	if !typed {
		r.Fail(fmt.Errorf("header %q: %w", key, errNoType))
	}
	return key, value
}

var errNoType = errors.New("no type that this version knows")

func readTyped(r *jsonscan.Reader, kind string) (value any, known bool) {
	switch kind {
	case "void":
		return nil, r.Bool()
	case "bool":
		return r.Bool(), true
	case "string":
		return r.TextValue(), true
	case "string64":
		return string(r.Bytes()), true
	case "bytes":
		return r.Bytes(), true
	case "table":
		return Read(r), true
	case "array":
		return readArray(r), true
	case "time":
		return time.Unix(r.Int(64), 0), true
	}
	return readNumber(r, kind)
}

func readNumber(r *jsonscan.Reader, kind string) (value any, known bool) {
	switch kind {
	case "int8":
		return int8(r.Int(8)), true
	case "uint8":
		return uint8(r.Uint(8)), true
	case "int16":
		return int16(r.Int(16)), true
	case "uint16":
		return uint16(r.Uint(16)), true
	case "int32":
		return int32(r.Int(32)), true
	case "uint32":
		return uint32(r.Uint(32)), true
	case "int64":
		return r.Int(64), true
	case "float32":
		return float32(r.Float(32)), true
	case "float64":
		return r.Float(64), true
	case "float32_bits":
		return math.Float32frombits(uint32(r.Uint(32))), true
	case "float64_bits":
		return math.Float64frombits(r.Uint(64)), true
	case "decimal":
		return readDecimal(r), true
	}
	return nil, false
}

func readDecimal(r *jsonscan.Reader) (d amqp.Decimal) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "scale":
			d.Scale = uint8(r.Uint(8))
		case "value":
			d.Value = int32(r.Int(32))
		}
	})
	return d
}
