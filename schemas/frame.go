package schemas

import (
	amqp "github.com/rabbitmq/amqp091-go"
)

// All properties and headers of a message travel in one frame, of at most 128 KiB
// by default in RabbitMQ and always in amqp091-go
// (https://www.rabbitmq.com/docs/configure#config-items, frame_max). A larger frame
// closes the connection. The broker itself enlarges the frame when it dead-letters
// a message and adds x-death.
const (
	frameMax  = 128 << 10 // bytes
	deathRoom = 4 << 10   // for x-death of a message that passes two of Watership's queues
	stateRoom = 12 << 10  // for Watership's headers without a stack
	signRoom  = 1 + len(headerSignature) + 5 + 43
)

// FrameMax is the size in bytes of the largest frame that a client and its broker
// have negotiated. Zero, which means no limit in AMQP, counts as DefaultFrameMax.
//
// Its methods wrap messages so that their properties and headers fit such a frame.
type FrameMax int

// DefaultFrameMax is RabbitMQ's default.
const DefaultFrameMax FrameMax = frameMax

// LeavesRoom reports whether the message's headers leave room in the frame for
// Watership's. A message without that room cannot return to a queue with its state,
// so it is not retried.
func (f FrameMax) LeavesRoom(e Envelope) bool {
	return HeaderFrameSize(e.Publishing())+f.stateRoom()+f.deathRoom() <= f.limit()
}

func (f FrameMax) limit() int {
	if f <= 0 {
		return frameMax
	}
	return min(int(f), frameMax)
}

// deathRoom and stateRoom are limited to a part of the frame, if it is smaller than
// the default.
func (f FrameMax) deathRoom() int { return min(deathRoom, f.limit()/4) }
func (f FrameMax) stateRoom() int { return min(stateRoom, f.limit()*3/8) }

// HeaderFrameSize returns the size in bytes of the frame with a message's
// properties and headers (AMQP 0-9-1 §4.2.6.1), including the frame's header and
// end, class, weight, body size and property flags. Headers must have types that
// AMQP supports.
func HeaderFrameSize(p amqp.Publishing) int {
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
		size += tableSize(p.Headers)
	}
	return size
}

// tableSize and fieldSize follow AMQP 0-9-1 §4.2.5.5 with RabbitMQ's field types.
func tableSize(table amqp.Table) int {
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
		return 1 + tableSize(v)
	case []any:
		size := 5
		for _, element := range v {
			size += fieldSize(element)
		}
		return size
	}
	return 9 // int64, float64, time.Time
}
