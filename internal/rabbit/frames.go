package rabbit

import (
	"encoding/binary"
	"net"
)

// frames is a stream of AMQP frames between the broker and the client library. It
// changes only frames that would end the connection:
//
//   - The broker sends frames larger than negotiated; see tune.go.
//   - The client cannot read the headers of a message; see unreadable.go.
//
// Reads happen on the client's reader goroutine and writes under its writer lock;
// the client writes tune-ok after it has read tune, which orders the two.
type frames struct {
	net.Conn
	in  incoming
	out outgoing
}

func newFrames(stream net.Conn, large bool) *frames {
	shared := &negotiated{large: large}
	return &frames{
		Conn: stream,
		in:   incoming{from: stream, cutter: cutter{methods: true}, negotiated: shared},
		out:  outgoing{to: stream, negotiated: shared},
	}
}

func (f *frames) Read(p []byte) (int, error)  { return f.in.Read(p) }
func (f *frames) Write(p []byte) (int, error) { return f.out.Write(p) }

// Frames (AMQP 0-9-1 §4.2.3): type, channel, size, payload, end.
const (
	frameHeader    = 7
	frameEnd       = 1
	frameMethod    = 1
	frameContent   = 2 // a content header: the properties of a message
	frameBody      = 3
	frameHeartbeat = 8
)

// largeFrameMax is the frame-max reported to the client library in place of the
// broker's: far more than a broker can add to headers that it once accepted, and
// small enough for memory.
const largeFrameMax = 16 << 20

// cutter finds frames in a stream that arrives in pieces.
type cutter struct {
	methods bool // inspect method frames too, not only content headers
	rest    int  // remaining bytes of a frame that passes uninspected
	blind   bool // the stream is not AMQP 0-9-1; pass everything
}

// cut inspects the start of b. It returns the number of bytes to pass uninspected,
// or the size of a complete frame to inspect, b[:whole]; 0, 0 if it needs more
// bytes.
func (c *cutter) cut(b []byte) (pass, whole int) {
	if c.rest == 0 && !c.blind {
		if len(b) == 0 {
			return 0, 0
		}
		if whole := c.begin(b); whole >= 0 {
			return 0, whole
		}
	}
	if c.blind {
		return len(b), 0
	}
	pass = min(c.rest, len(b))
	c.rest -= pass
	return pass, 0
}

// begin inspects the start of a frame. It returns the size of a complete frame to
// inspect, 0 if it needs more bytes, -1 if the frame passes uninspected.
func (c *cutter) begin(b []byte) int {
	kind := b[0]
	if kind != frameMethod && kind != frameContent && kind != frameBody && kind != frameHeartbeat {
		c.blind = true // such as the protocol header of a broker without AMQP 0-9-1
		return -1
	}
	if len(b) < frameHeader {
		return 0
	}
	size := frameHeader + int(binary.BigEndian.Uint32(b[3:])) + frameEnd
	if kind != frameContent && !(kind == frameMethod && c.methods) || size > largeFrameMax {
		c.rest = size
		return -1
	}
	if len(b) < size {
		return 0
	}
	return size
}
