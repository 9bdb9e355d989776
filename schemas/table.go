package schemas

import (
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// AppendTable appends an AMQP table as JSON that keeps every type and value
// exactly: a list of members, sorted by key, each with its key and one typed value,
// such as {"key":"attempts","int32":3}. It is a list since a key may be empty, have
// dots or be no UTF-8 (then "key64" has it in base64), and a document store accepts
// none of these as the key of a JSON object.
//
// It accepts every type that amqp091-go can write. It panics on others, which
// cannot have come from a broker (amqp.Table.Validate finds them).
func AppendTable(dst []byte, table amqp.Table) []byte {
	var room [keysRoom]string
	return appendMembers(dst, table, sortedKeys(room[:0], table))
}

func appendMembers(dst []byte, table amqp.Table, keys []string) []byte {
	dst = append(dst, '[')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = appendText(dst, "key", key)
		dst = append(dst, ',')
		dst = appendTyped(dst, table[key])
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

// appendText appends a member with the exact s: as name, or as name64 in base64 if
// s is not UTF-8.
func appendText(dst []byte, name, s string) []byte {
	if utf8.ValidString(s) {
		return appendString(appendName(dst, name), s)
	}
	return appendBase64(appendName(dst, name+"64"), []byte(s))
}

func appendName(dst []byte, name string) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func appendTyped(dst []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(dst, `"void":true`...)
	case bool:
		return strconv.AppendBool(appendName(dst, "bool"), v)
	case string:
		return appendText(dst, "string", v)
	case []byte:
		return appendBase64(appendName(dst, "bytes"), v)
	case amqp.Table:
		return AppendTable(appendName(dst, "table"), v)
	case []any:
		return appendArray(appendName(dst, "array"), v)
	case time.Time:
		return strconv.AppendInt(appendName(dst, "time"), v.Unix(), 10)
	}
	return appendNumber(dst, value)
}

func appendNumber(dst []byte, value any) []byte {
	switch v := value.(type) {
	case int8:
		return strconv.AppendInt(appendName(dst, "int8"), int64(v), 10)
	case uint8:
		return strconv.AppendInt(appendName(dst, "uint8"), int64(v), 10)
	case int16:
		return strconv.AppendInt(appendName(dst, "int16"), int64(v), 10)
	case uint16:
		return strconv.AppendInt(appendName(dst, "uint16"), int64(v), 10)
	case int32:
		return strconv.AppendInt(appendName(dst, "int32"), int64(v), 10)
	case int: // the client writes it as a 32-bit integer
		return strconv.AppendInt(appendName(dst, "int32"), int64(int32(v)), 10)
	case uint32:
		return strconv.AppendInt(appendName(dst, "uint32"), int64(v), 10)
	case int64:
		return strconv.AppendInt(appendName(dst, "int64"), v, 10)
	case float32:
		return appendFloat(dst, "float32", float64(v), 32, uint64(math.Float32bits(v)))
	case float64:
		return appendFloat(dst, "float64", v, 64, math.Float64bits(v))
	case amqp.Decimal:
		dst = append(appendName(dst, "decimal"), `{"scale":`...)
		dst = strconv.AppendInt(dst, int64(v.Scale), 10)
		dst = strconv.AppendInt(append(dst, `,"value":`...), int64(v.Value), 10)
		return append(dst, '}')
	}
	panic(fmt.Sprintf("schemas: a %T cannot be in an AMQP table", value))
}

// appendFloat appends the bits of a value for which JSON has no number.
func appendFloat(dst []byte, name string, v float64, size int, bits uint64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.AppendUint(appendName(dst, name+"_bits"), bits, 10)
	}
	return strconv.AppendFloat(appendName(dst, name), v, 'g', -1, size)
}
