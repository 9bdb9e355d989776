// Package canonical encodes texts and AMQP tables, for fingerprints and signatures. Every
// value has a tag or a fixed place, and a length precedes everything of variable length, so
// two different values never have the same encoding.
package canonical

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/tablejson"
)

// Value appends a tag and a value of 64 bits.
func Value(dst []byte, tag byte, bits uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tag), bits)
}

// Text appends a text with its length.
func Text(dst []byte, s string) []byte {
	return append(Value(dst, '#', uint64(len(s))), s...)
}

func appendTable(dst []byte, table amqp.Table) []byte {
	var room [tablejson.Room]tablejson.Field
	return Fields(dst, tablejson.Sorted(room[:], table, nil))
}

// Fields appends the sorted fields of a table.
func Fields(dst []byte, fields []tablejson.Field) []byte {
	dst = Value(dst, 'F', uint64(len(fields)))
	for i := range fields {
		dst = appendValue(Text(dst, fields[i].Key), fields[i].Value)
	}
	return dst
}

// appendValue appends a header value with the tag of RabbitMQ's table field
// type.
func appendValue(dst []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return Value(dst, 'V', 0)
	case bool:
		return Value(dst, 't', boolBits(v))
	case string:
		return Text(Value(dst, 'S', 0), v)
	case []byte:
		dst = Value(Value(dst, 'x', 0), '#', uint64(len(v)))
		return append(dst, v...)
	case time.Time:
		return Value(dst, 'T', uint64(v.Unix()))
	case amqp.Table:
		return appendTable(dst, v)
	case []any:
		dst = Value(dst, 'A', uint64(len(v)))
		for _, element := range v {
			dst = appendValue(dst, element)
		}
		return dst
	}
	return appendNumber(dst, value)
}

func appendNumber(dst []byte, value any) []byte {
	switch v := value.(type) {
	case int8:
		return Value(dst, 'b', uint64(v))
	case uint8:
		return Value(dst, 'B', uint64(v))
	case int16:
		return Value(dst, 's', uint64(v))
	case uint16:
		return Value(dst, 'u', uint64(v))
	case int32:
		return Value(dst, 'I', uint64(v))
	case int: // the client writes it as a 32-bit integer
		return Value(dst, 'I', uint64(int32(v)))
	case uint32:
		return Value(dst, 'i', uint64(v))
	case int64:
		return Value(dst, 'l', uint64(v))
	case float32:
		return Value(dst, 'f', uint64(math.Float32bits(v)))
	case float64:
		return Value(dst, 'd', math.Float64bits(v))
	case amqp.Decimal:
		return Value(dst, 'D', uint64(v.Scale)<<32|uint64(uint32(v.Value)))
	}
	panic(fmt.Sprintf("canonical: a %T cannot be in an AMQP table", value))
}

func boolBits(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
