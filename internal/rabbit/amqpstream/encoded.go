package amqpstream

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// EncodedHeaders is the name of the only header of a message whose headers AppendTable has
// encoded, as a byte array. The message is sent with these headers: the client library
// takes as long for the encoding of a table, and allocates as much, as for the rest of a
// publish.
//
// A header of this name has no effect within encoded headers, so that a publisher cannot
// choose the bytes of the table.
const EncodedHeaders = "encoded-headers"

// encodedTable returns the table in the header EncodedHeaders of a message that has no
// other header.
func encodedTable(table []byte) (encoded []byte, ok bool) {
	value := valueOffset(table, 0)
	content, end := contentOffsets(table, value)
	if end != len(table) || table[value] != 'x' || string(table[1:value]) != EncodedHeaders {
		return nil, false
	}
	return table[content:end], true
}

// AppendTable appends the entries of a table as the client library encodes them, without the
// length of the table. It fails for a type that AMQP does not have. Names are at most 255
// bytes long.
func AppendTable(dst []byte, table amqp.Table) ([]byte, error) {
	var err error
	for name, value := range table {
		dst = append(append(dst, byte(len(name))), name...)
		if dst, err = appendValue(dst, value); err != nil {
			return dst, fmt.Errorf("header %q: %w", name, err)
		}
	}
	return dst, nil
}

func appendValue(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return append(appendUint32(dst, 'S', uint32(len(v))), v...), nil
	case []byte:
		return append(appendUint32(dst, 'x', uint32(len(v))), v...), nil
	case amqp.Table:
		return appendSized(dst, 'F', func(dst []byte) ([]byte, error) { return AppendTable(dst, v) })
	case []any:
		return appendSized(dst, 'A', func(dst []byte) (_ []byte, err error) {
			for _, element := range v {
				if dst, err = appendValue(dst, element); err != nil {
					return dst, err
				}
			}
			return dst, nil
		})
	case nil:
		return append(dst, 'V'), nil
	case bool:
		if v {
			return append(dst, 't', 1), nil
		}
		return append(dst, 't', 0), nil
	case time.Time:
		return appendUint64(dst, 'T', uint64(v.Unix())), nil
	case amqp.Decimal:
		return binary.BigEndian.AppendUint32(append(dst, 'D', v.Scale), uint32(v.Value)), nil
	}
	return appendNumber(dst, value)
}

func appendNumber(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case int8:
		return append(dst, 'b', byte(v)), nil
	case uint8:
		return append(dst, 'B', v), nil
	case int16:
		return binary.BigEndian.AppendUint16(append(dst, 's'), uint16(v)), nil
	case uint16:
		return binary.BigEndian.AppendUint16(append(dst, 'u'), v), nil
	case int:
		return appendUint32(dst, 'I', uint32(v)), nil
	case int32:
		return appendUint32(dst, 'I', uint32(v)), nil
	case uint32:
		return appendUint32(dst, 'i', v), nil
	case int64:
		return appendUint64(dst, 'l', uint64(v)), nil
	case float32:
		return appendUint32(dst, 'f', math.Float32bits(v)), nil
	case float64:
		return appendUint64(dst, 'd', math.Float64bits(v)), nil
	}
	return dst, fmt.Errorf("AMQP has no type for %T", value)
}

// appendSized appends a value that begins with its size in bytes.
func appendSized(dst []byte, kind byte, appendContent func([]byte) ([]byte, error)) ([]byte, error) {
	dst = appendUint32(dst, kind, 0)
	start := len(dst)
	dst, err := appendContent(dst)
	binary.BigEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	return dst, err
}

func appendUint32(dst []byte, kind byte, v uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, kind), v)
}

func appendUint64(dst []byte, kind byte, v uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, kind), v)
}
