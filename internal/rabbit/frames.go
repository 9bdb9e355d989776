package rabbit

import (
	"encoding/binary"
	"io"
	"net"
)

// largeFrameMax is what our side accepts in place of what the broker proposed:
// far more than a broker can add to headers that it once accepted, far less than
// would hurt.
const largeFrameMax = 16 << 20

// largeFrames raises frame-max in the tune that the client reads, and puts the
// broker's own value back in the tune-ok that the client writes. The broker sees
// an ordinary client; the client accepts the larger frames that the broker sends
// although it negotiated smaller ones.
//
// Reads happen on the client's reader goroutine and writes under its writer
// lock; tune-ok is written because tune was read, which orders the two.
type largeFrames struct {
	net.Conn
	unread   []byte // of frames already looked at
	tuned    bool   // tune has passed: reads go straight through
	answered bool   // tune-ok has passed: writes go straight through
	frameMax uint32 // what the broker proposed
}

// Method frames (AMQP 0-9-1 §4.2.4): type, channel, size, class, method,
// arguments, end. Tune and tune-ok: channel-max, frame-max, heartbeat.
const (
	frameHeader  = 7
	frameMethod  = 1
	classConn    = 10
	methodTune   = 30
	methodTuneOK = 31
	tuneFrame    = frameHeader + 2 + 2 + 2 + 4 + 2 + 1
	frameMaxAt   = frameHeader + 2 + 2 + 2

	// Frames before tune are small; anything else is not worth understanding.
	handshakeFrameMax = 1 << 20
)

// Read looks at whole frames until tune has come, then at nothing.
func (c *largeFrames) Read(p []byte) (int, error) {
	if len(c.unread) == 0 && !c.tuned {
		if err := c.readFrame(); err != nil {
			return 0, err
		}
	}
	if len(c.unread) > 0 {
		n := copy(p, c.unread)
		c.unread = c.unread[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

func (c *largeFrames) readFrame() error {
	frame := make([]byte, frameHeader, 512)
	if n, err := io.ReadFull(c.Conn, frame); err != nil {
		c.unread, c.tuned = frame[:n], n > 0
		return partial(n, err)
	}
	size := binary.BigEndian.Uint32(frame[3:])
	if frame[0] != frameMethod || size > handshakeFrameMax {
		c.unread, c.tuned = frame, true // such as "AMQP" and the version of a broker that knows no 0-9-1
		return nil
	}
	frame = append(frame, make([]byte, size+1)...)
	n, err := io.ReadFull(c.Conn, frame[frameHeader:])
	frame = frame[:frameHeader+n]
	if isMethod(frame, methodTune) {
		c.tuned = true
		c.raise(frame)
	}
	c.unread = frame
	return partial(len(frame), err)
}

// partial lets what was read go up first; the error shows at the next Read.
func partial(n int, err error) error {
	if n > 0 {
		return nil
	}
	return err
}

func (c *largeFrames) raise(tune []byte) {
	c.frameMax = binary.BigEndian.Uint32(tune[frameMaxAt:])
	if c.frameMax != 0 && c.frameMax < largeFrameMax {
		binary.BigEndian.PutUint32(tune[frameMaxAt:], largeFrameMax)
	}
}

// Write relies on the client flushing after each method frame of the handshake,
// so that tune-ok is a write of its own.
func (c *largeFrames) Write(p []byte) (int, error) {
	if !c.answered && isMethod(p, methodTuneOK) {
		c.answered = true
		restored := append([]byte(nil), p...)
		binary.BigEndian.PutUint32(restored[frameMaxAt:], c.frameMax)
		p = restored
	}
	return c.Conn.Write(p)
}

// isMethod says whether frame is exactly the given one of tune and tune-ok.
func isMethod(frame []byte, method uint16) bool {
	return len(frame) == tuneFrame && frame[0] == frameMethod &&
		binary.BigEndian.Uint16(frame[1:]) == 0 &&
		binary.BigEndian.Uint16(frame[frameHeader:]) == classConn &&
		binary.BigEndian.Uint16(frame[frameHeader+2:]) == method
}
