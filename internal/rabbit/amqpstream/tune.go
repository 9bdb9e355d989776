package amqpstream

import "encoding/binary"

// negotiated holds the negotiated frame-max of one connection. With large frames,
// raiseFrameMax increases frame-max in the tune method that the client library
// reads, and writeHandshake restores the broker's value in tune-ok. The broker sees
// an ordinary client; the client library accepts the larger frames that the broker
// sends despite the negotiated limit.
type negotiated struct {
	largeFrames bool
	frameMax    uint32 // proposed by the broker
}

// largeFrameMax is the frame-max reported to the client library in place of the
// broker's: far more than a broker can add to headers that it once accepted, and
// small enough for memory.
const largeFrameMax = 16 << 20

// Method frames (AMQP 0-9-1 §4.2.4): class, method, arguments. Tune and tune-ok:
// channel-max, frame-max, heartbeat.
const (
	classConnection = 10
	methodTune      = 30
	methodTuneOK    = 31
	tuneFrame       = frameHeader + 2 + 2 + 2 + 4 + 2 + frameEnd
	frameMaxAt      = frameHeader + 2 + 2 + 2
)

func (n *negotiated) raiseFrameMax(tune []byte) {
	n.frameMax = binary.BigEndian.Uint32(tune[frameMaxAt:])
	if n.largeFrames && n.frameMax != 0 && n.frameMax < largeFrameMax {
		binary.BigEndian.PutUint32(tune[frameMaxAt:], largeFrameMax)
	}
}

// writeHandshake passes the client library's writes up to tune-ok. It requires that
// the library flushes after each method of the handshake, so that tune-ok is a separate
// write.
func (c *outgoing) writeHandshake(p []byte) (int, error) {
	if isTuneMethod(p, methodTuneOK) {
		c.tuned = true
		if c.largeFrames {
			p = append([]byte(nil), p...)
			binary.BigEndian.PutUint32(p[frameMaxAt:], c.frameMax)
		}
	}
	return c.to.Write(p)
}

// isTuneMethod reports whether frame is the given method of class connection, tune or
// tune-ok.
func isTuneMethod(frame []byte, method uint16) bool {
	return len(frame) == tuneFrame && frame[0] == frameMethod &&
		binary.BigEndian.Uint16(frame[1:]) == 0 &&
		binary.BigEndian.Uint16(frame[frameHeader:]) == classConnection &&
		binary.BigEndian.Uint16(frame[frameHeader+2:]) == method
}
