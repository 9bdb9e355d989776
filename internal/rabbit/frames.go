package rabbit

import (
	"encoding/binary"
	"net"
)

// frames is a stream of AMQP frames between the broker and the client library,
// which it lets pass but for two things that would end the connection:
//
//   - The broker sends larger frames than were negotiated; see tune.go.
//   - The client cannot read the headers of a message; see unreadable.go.
//
// Reads happen on the client's reader goroutine and writes under its writer
// lock; tune-ok is written because tune was read, which orders the two.
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

// largeFrameMax is what our side accepts in place of what the broker proposed:
// far more than a broker can add to headers that it once accepted, far less than
// would hurt.
const largeFrameMax = 16 << 20

// cutter finds frames in a stream that comes in pieces.
type cutter struct {
	methods bool // method frames are to be looked at too, not content headers only
	rest    int  // bytes to come of a frame that nobody looks at
	blind   bool // what comes are no frames, or none worth understanding
}

// cut says what is at the beginning of b: pass bytes that nobody looks at, or
// a frame that somebody does, which is b[:whole]; neither where more is needed.
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

// begin looks at the beginning of a frame: its size if it is there and to be
// looked at, 0 if more is needed, -1 if it passes.
func (c *cutter) begin(b []byte) int {
	kind := b[0]
	if kind != frameMethod && kind != frameContent && kind != frameBody && kind != frameHeartbeat {
		c.blind = true // such as "AMQP" and the version of a broker that knows no 0-9-1
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
