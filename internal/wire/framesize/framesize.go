// Package framesize computes the sizes of frames.
package framesize

import (
	amqp "github.com/rabbitmq/amqp091-go"
)

// OfHeader returns the size in bytes of the frame with a message's properties and
// headers (AMQP 0-9-1 §4.2.6.1), including the frame's header and end, class, weight,
// body size and property flags. Headers must have types that AMQP supports.
func OfHeader(p amqp.Publishing) int {
	size := 7 + 1 + 2 + 2 + 8 + 2
	for _, text := range [...]string{
		p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.Expiration, p.MessageId, p.Type, p.UserId, p.AppId,
	} {
		if text != "" {
			size += 1 + len(text)
		}
	}
	if p.DeliveryMode > 0 {
		size++
	}
	if p.Priority > 0 {
		size++
	}
	if !p.Timestamp.IsZero() {
		size += 8
	}
	if len(p.Headers) > 0 {
		size += OfTable(p.Headers)
	}
	return size
}

// OfTable returns the size in bytes of a table in a frame (AMQP 0-9-1 §4.2.5.5), with
// RabbitMQ's field types.
func OfTable(table amqp.Table) int {
	size := 4
	for key, value := range table {
		size += 1 + len(key) + fieldSize(value)
	}
	return size
}

func fieldSize(value any) int {
	switch v := value.(type) {
	case nil:
		return 1
	case bool, uint8, int8:
		return 2
	case int16, uint16:
		return 3
	case int, int32, uint32, float32:
		return 5
	case amqp.Decimal:
		return 6
	case string:
		return 5 + len(v)
	case []byte:
		return 5 + len(v)
	case amqp.Table:
		return 1 + OfTable(v)
	case []any:
		size := 5
		for _, element := range v {
			size += fieldSize(element)
		}
		return size
	}
	return 9 // int64, float64, time.Time
}
