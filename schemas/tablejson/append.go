// Package tablejson has the JSON of AMQP tables, such as the headers of messages, which
// keeps every type and value:
//
//	data := tablejson.Append(nil, delivery.Headers)
//	headers, err := tablejson.Parse(data) // equal to delivery.Headers
//
// For JSON that people read, without the types, use encoding/json.
package tablejson

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
)

// Append appends an AMQP table as JSON that keeps every type and value
// exactly: a list of members, sorted by key, each with its key and one typed value,
// such as {"key":"attempts","int32":3}. It is a list since a key may be empty, have
// dots or be no UTF-8 (then "key64" has it in base64), and a document store accepts
// none of these as the key of a JSON object.
//
// It accepts every type that amqp091-go can write. It panics on others, which
// cannot have come from a broker (amqp.Table.Validate finds them).
func Append(dst []byte, table amqp.Table) []byte {
	var room [Room]Field
	return AppendFields(dst, Sorted(room[:], table, nil))
}

// Field is a key of a table and its value.
type Field struct {
	Key   string
	Value any
}

// Room is the number of fields that most tables do not exceed: a caller of Sorted has memory
// for as many.
const Room = 32

// Sorted returns the fields of a table, sorted by key, without those that omit selects. A nil
// omit selects none. It uses the memory of room.
func Sorted(room []Field, table amqp.Table, omit func(key string) bool) []Field {
	fields := room[:0]
	for key, value := range table {
		if omit == nil || !omit(key) {
			fields = append(fields, Field{key, value})
		}
	}
	slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	return fields
}

// AppendFields is Append for a caller that has the fields of the table, sorted.
func AppendFields(dst []byte, fields []Field) []byte {
	dst = append(dst, '[')
	for i := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = jsonappend.Exact(dst, "key", fields[i].Key)
		dst = append(dst, ',')
		dst = appendTyped(dst, fields[i].Value)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendArray(dst []byte, values []any) []byte {
	dst = append(dst, '[')
	for i, value := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = appendTyped(dst, value)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendTyped(dst []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(dst, `"void":true`...)
	case bool:
		return strconv.AppendBool(jsonappend.Name(dst, "bool"), v)
	case string:
		return jsonappend.Exact(dst, "string", v)
	case []byte:
		return jsonappend.Base64(jsonappend.Name(dst, "bytes"), v)
	case amqp.Table:
		return Append(jsonappend.Name(dst, "table"), v)
	case []any:
		return appendArray(jsonappend.Name(dst, "array"), v)
	case time.Time:
		return strconv.AppendInt(jsonappend.Name(dst, "time"), v.Unix(), 10)
	}
	return appendNumber(dst, value)
}

func appendNumber(dst []byte, value any) []byte {
	switch v := value.(type) {
	case int8:
		return strconv.AppendInt(jsonappend.Name(dst, "int8"), int64(v), 10)
	case uint8:
		return strconv.AppendInt(jsonappend.Name(dst, "uint8"), int64(v), 10)
	case int16:
		return strconv.AppendInt(jsonappend.Name(dst, "int16"), int64(v), 10)
	case uint16:
		return strconv.AppendInt(jsonappend.Name(dst, "uint16"), int64(v), 10)
	case int32:
		return strconv.AppendInt(jsonappend.Name(dst, "int32"), int64(v), 10)
	case int: // the client writes it as a 32-bit integer
		return strconv.AppendInt(jsonappend.Name(dst, "int32"), int64(int32(v)), 10)
	case uint32:
		return strconv.AppendInt(jsonappend.Name(dst, "uint32"), int64(v), 10)
	case int64:
		return strconv.AppendInt(jsonappend.Name(dst, "int64"), v, 10)
	case float32:
		return appendFloat(dst, "float32", float64(v), 32, uint64(math.Float32bits(v)))
	case float64:
		return appendFloat(dst, "float64", v, 64, math.Float64bits(v))
	case amqp.Decimal:
		dst = append(jsonappend.Name(dst, "decimal"), `{"scale":`...)
		dst = strconv.AppendInt(dst, int64(v.Scale), 10)
		dst = strconv.AppendInt(append(dst, `,"value":`...), int64(v.Value), 10)
		return append(dst, '}')
	}
	panic(fmt.Sprintf("tablejson: a %T cannot be in an AMQP table", value))
}

// appendFloat appends the bits of a value for which JSON has no number.
func appendFloat(dst []byte, name string, v float64, size int, bits uint64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.AppendUint(jsonappend.Name(dst, name+"_bits"), bits, 10)
	}
	return strconv.AppendFloat(jsonappend.Name(dst, name), v, 'g', -1, size)
}
