package wire

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/framesize"
	"github.com/watershipmq/watership/schemas"
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
func (f FrameMax) LeavesRoom(e schemas.Envelope) bool {
	e.Redacted = false // its mark is no header
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
func HeaderFrameSize(p amqp.Publishing) int { return framesize.OfHeader(p) }
