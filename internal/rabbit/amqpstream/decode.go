package amqpstream

import (
	"encoding/binary"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The flags of the properties that follow the headers (AMQP 0-9-1 §4.2.6.1).
const (
	flagDeliveryMode  = 0x1000
	flagPriority      = 0x0800
	flagCorrelationID = 0x0400
	flagReplyTo       = 0x0200
	flagExpiration    = 0x0100
	flagMessageID     = 0x0080
	flagTimestamp     = 0x0040
	flagType          = 0x0020
	flagUserID        = 0x0010
	flagAppID         = 0x0008
)

// decodeContent decodes the properties of a content header frame as the client library
// does, and returns the size of the body. The headers must be decodable, see stash. The
// texts of a message share one allocation.
func decodeContent(frame []byte, d *amqp.Delivery) (bodySize uint64, err error) {
	if len(frame) < propertiesAt+frameEnd || frame[len(frame)-frameEnd] != frameEndByte {
		return 0, errMalformed
	}
	flags := binary.BigEndian.Uint16(frame[contentFlagsAt:])
	r := fieldReader{rest: string(frame[propertiesAt : len(frame)-frameEnd])}
	text := func(flag uint16, into *string) {
		if flags&flag != 0 {
			*into = r.shortText()
		}
	}
	text(flagContentType, &d.ContentType)
	text(flagContentEncoding, &d.ContentEncoding)
	if flags&flagHeaders != 0 {
		d.Headers = r.table(0)
	}
	if flags&flagDeliveryMode != 0 {
		d.DeliveryMode = r.uint8()
	}
	if flags&flagPriority != 0 {
		d.Priority = r.uint8()
	}
	text(flagCorrelationID, &d.CorrelationId)
	text(flagReplyTo, &d.ReplyTo)
	text(flagExpiration, &d.Expiration)
	text(flagMessageID, &d.MessageId)
	if flags&flagTimestamp != 0 {
		d.Timestamp = time.Unix(int64(r.uint64()), 0)
	}
	text(flagType, &d.Type)
	text(flagUserID, &d.UserId)
	text(flagAppID, &d.AppId)
	if r.failed {
		return 0, errMalformed
	}
	return binary.BigEndian.Uint64(frame[contentFlagsAt-8:]), nil
}

// fieldReader reads fields of a frame (AMQP 0-9-1 §4.2.5). After a field that is too short
// it returns zero values.
type fieldReader struct {
	rest   string
	failed bool
}

func (r *fieldReader) bytes(n int) string {
	if n < 0 || n > len(r.rest) {
		r.rest, r.failed = "", true
		return ""
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *fieldReader) uint8() uint8 {
	if b := r.bytes(1); b != "" {
		return b[0]
	}
	return 0
}

func (r *fieldReader) uint16() uint16 {
	if b := r.bytes(2); b != "" {
		return uint16(b[0])<<8 | uint16(b[1])
	}
	return 0
}

func (r *fieldReader) uint32() uint32 { return uint32(r.uint16())<<16 | uint32(r.uint16()) }
func (r *fieldReader) uint64() uint64 { return uint64(r.uint32())<<32 | uint64(r.uint32()) }

func (r *fieldReader) shortText() string { return r.bytes(int(r.uint8())) }
func (r *fieldReader) longText() string  { return r.bytes(int(r.uint32())) }

// table reads a table that is nested in depth others.
func (r *fieldReader) table(depth int) amqp.Table {
	nested := fieldReader{rest: r.longText()}
	table := amqp.Table{}
	for nested.rest != "" {
		name := nested.shortText()
		value := nested.value(depth)
		if nested.failed || depth > maxDepth {
			r.failed = true
			break
		}
		table[name] = value
	}
	return table
}

func (r *fieldReader) array(depth int) []any {
	nested := fieldReader{rest: r.longText()}
	var array []any
	for nested.rest != "" {
		value := nested.value(depth)
		if nested.failed || depth > maxDepth {
			r.failed = true
			break
		}
		array = append(array, value)
	}
	return array
}

// value reads a value with its field type, see fixedSize.
func (r *fieldReader) value(depth int) any {
	switch kind := r.uint8(); kind {
	case 'S':
		return r.longText()
	case 'x':
		return []byte(r.longText())
	case 'F':
		return r.table(depth + 1)
	case 'A':
		return r.array(depth + 1)
	case 'V':
		return nil
	case 't':
		return r.uint8() != 0
	case 'T':
		return time.Unix(int64(r.uint64()), 0)
	case 'D':
		return amqp.Decimal{Scale: r.uint8(), Value: int32(r.uint32())}
	default:
		return r.number(kind)
	}
}

func (r *fieldReader) number(kind byte) any {
	switch kind {
	case 'b':
		return int8(r.uint8())
	case 'B':
		return r.uint8()
	case 's':
		return int16(r.uint16())
	case 'u':
		return r.uint16()
	case 'I':
		return int32(r.uint32())
	case 'i':
		return r.uint32()
	case 'l':
		return int64(r.uint64())
	case 'f':
		return math.Float32frombits(r.uint32())
	case 'd':
		return math.Float64frombits(r.uint64())
	}
	r.failed = true
	return nil
}
