package amqpstream

import "encoding/binary"

// Frames (AMQP 0-9-1 §4.2.3): type, channel, size, payload, end.
const (
	frameHeader    = 7
	frameEnd       = 1
	frameMethod    = 1
	frameContent   = 2 // a content header: the properties of a message
	frameBody      = 3
	frameHeartbeat = 8
	frameEndByte   = 0xCE
)

// splitter finds frames in a stream that arrives in pieces.
type splitter struct {
	methods bool // inspect method frames too, not only content headers
	rest    int  // remaining bytes of a frame that passes uninspected
	notAMQP bool // the stream is not AMQP 0-9-1: pass everything
}

// next inspects the start of b. It returns the number of bytes to pass uninspected,
// or the size of a complete frame to inspect, b[:whole]; 0, 0 if it needs more
// bytes.
func (s *splitter) next(b []byte) (pass, whole int) {
	if s.rest == 0 && !s.notAMQP {
		if len(b) == 0 {
			return 0, 0
		}
		if whole := s.begin(b); whole >= 0 {
			return 0, whole
		}
	}
	if s.notAMQP {
		return len(b), 0
	}
	pass = min(s.rest, len(b))
	s.rest -= pass
	return pass, 0
}

// begin inspects the start of a frame. It returns the size of a complete frame to
// inspect, 0 if it needs more bytes, -1 if the frame passes uninspected.
func (s *splitter) begin(b []byte) int {
	kind := b[0]
	if kind != frameMethod && kind != frameContent && kind != frameBody && kind != frameHeartbeat {
		s.notAMQP = true // such as the protocol header of a broker without AMQP 0-9-1
		return -1
	}
	if len(b) < frameHeader {
		return 0
	}
	size := frameHeader + int(binary.BigEndian.Uint32(b[3:])) + frameEnd
	if kind != frameContent && !(kind == frameMethod && s.methods) || size > largeFrameMax {
		s.rest = size
		return -1
	}
	if len(b) < size {
		return 0
	}
	return size
}
