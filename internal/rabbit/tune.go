package rabbit

import "encoding/binary"

// negotiated is what one connection and its broker agree on. Where large frames
// are wanted, frame-max is raised in the tune that the client reads, and the
// broker's own value put back in the tune-ok that the client writes. The broker
// sees an ordinary client; the client accepts the larger frames that the broker
// sends although it negotiated smaller ones.
type negotiated struct {
	large    bool
	frameMax uint32 // what the broker proposed
}

// Method frames (AMQP 0-9-1 §4.2.4): class, method, arguments. Tune and tune-ok:
// channel-max, frame-max, heartbeat.
const (
	classConn    = 10
	methodTune   = 30
	methodTuneOK = 31
	tuneFrame    = frameHeader + 2 + 2 + 2 + 4 + 2 + frameEnd
	frameMaxAt   = frameHeader + 2 + 2 + 2
)

func (n *negotiated) raise(tune []byte) {
	n.frameMax = binary.BigEndian.Uint32(tune[frameMaxAt:])
	if n.large && n.frameMax != 0 && n.frameMax < largeFrameMax {
		binary.BigEndian.PutUint32(tune[frameMaxAt:], largeFrameMax)
	}
}

// answer passes what the client writes up to tune-ok. It relies on the client
// flushing after each method frame of the handshake, so that tune-ok is a write
// of its own.
func (c *outgoing) answer(p []byte) (int, error) {
	if isMethod(p, methodTuneOK) {
		c.answered = true
		if c.large {
			p = append([]byte(nil), p...)
			binary.BigEndian.PutUint32(p[frameMaxAt:], c.frameMax)
		}
	}
	return c.to.Write(p)
}

// isMethod says whether frame is exactly the given one of tune and tune-ok.
func isMethod(frame []byte, method uint16) bool {
	return len(frame) == tuneFrame && frame[0] == frameMethod &&
		binary.BigEndian.Uint16(frame[1:]) == 0 &&
		binary.BigEndian.Uint16(frame[frameHeader:]) == classConn &&
		binary.BigEndian.Uint16(frame[frameHeader+2:]) == method
}
