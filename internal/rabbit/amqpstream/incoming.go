package amqpstream

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// readAhead is the read size: many small messages in one system call.
const readAhead = 128 << 10

// incoming is the stream from the broker to the client library.
type incoming struct {
	*negotiated
	deliveries
	frames    splitter
	from      net.Conn
	buffer    []byte // read from the stream
	returned  int    // buffer[:returned] was returned by Read
	passed    int    // buffer[:passed] may be returned by Read
	inspected int    // buffer[passed:inspected] was taken from the stream
	err       error  // of the stream, returned after the rest of buffer

	tuned      bool      // the broker has sent tune
	lastPassed time.Time // when Read returned bytes last

	failed atomic.Pointer[error] // err, for goroutines other than the reader
}

func (c *incoming) readError() error {
	if err := c.failed.Load(); err != nil && !errors.Is(*err, io.EOF) && !errors.Is(*err, net.ErrClosed) {
		return *err
	}
	return nil
}

func (c *incoming) Read(p []byte) (int, error) {
	for c.returned == c.passed {
		if c.err != nil {
			return 0, c.err
		}
		c.fill()
		c.inspect()
		if c.returned == c.passed && c.owesHeartbeat(len(p)) {
			return copy(p, heartbeat), nil
		}
	}
	n := copy(p, c.buffer[c.returned:c.passed])
	c.returned += n
	c.lastPassed = time.Now()
	return n, nil
}

// heartbeat is a heartbeat frame (AMQP 0-9-1 §4.2.7).
const heartbeat = "\x08\x00\x00\x00\x00\x00\x00\xce"

// owesHeartbeat reports whether the client library should read a heartbeat. It closes the
// connection if it reads nothing for a time, and deliveries that were taken are nothing. The
// broker sends no heartbeats during that time.
func (c *incoming) owesHeartbeat(room int) bool {
	if c.err != nil || c.frames.rest > 0 || room < len(heartbeat) || time.Since(c.lastPassed) < time.Second {
		return false
	}
	c.lastPassed = time.Now()
	return c.tuned
}

// fill reads once from the stream. Read has returned buffer[:passed] before.
func (c *incoming) fill() {
	if c.inspected == len(c.buffer) && cap(c.buffer) > 4*readAhead {
		c.buffer = nil // release the memory of one large frame
	} else {
		c.buffer = c.buffer[:copy(c.buffer, c.buffer[c.inspected:])]
	}
	c.returned, c.passed, c.inspected = 0, 0, 0
	if cap(c.buffer)-len(c.buffer) < readAhead/2 {
		c.buffer = slices.Grow(c.buffer, readAhead)
	}
	n, err := c.from.Read(c.buffer[len(c.buffer):cap(c.buffer)])
	c.buffer = c.buffer[:len(c.buffer)+n]
	c.fail(err)
}

func (c *incoming) fail(err error) {
	if c.err = err; err != nil {
		c.failed.Store(&err)
	}
}

// inspect passes the frames in the buffer, replaces some, and takes the frames of deliveries.
// After a read error the rest of the buffer passes unchanged.
func (c *incoming) inspect() {
	for c.inspected < len(c.buffer) {
		progress, err := c.inspectNext(c.buffer[c.inspected:])
		if err != nil {
			c.fail(err)
			return
		}
		if !progress {
			break
		}
	}
	if c.err != nil {
		c.pass(len(c.buffer) - c.inspected)
	}
}

// inspectNext inspects the start of the rest of the buffer. It makes no progress if it needs
// more bytes.
func (c *incoming) inspectNext(rest []byte) (progress bool, err error) {
	if c.frames.rest == 0 {
		taken, err := c.takeBody(rest)
		if c.inspected += taken; taken > 0 || err != nil {
			return true, err
		}
	}
	pass, whole := c.frames.next(rest)
	if whole == 0 {
		c.pass(pass)
		return pass > 0, nil
	}
	frame := rest[:whole]
	changed := c.replacement(frame)
	if changed != nil {
		frame = changed
	}
	switch taken, err := c.take(frame); {
	case taken || err != nil:
		c.inspected += whole
		return true, err
	case changed != nil:
		c.buffer = slices.Replace(c.buffer, c.inspected, c.inspected+whole, changed...)
	}
	c.pass(len(frame))
	return true, nil
}

// pass passes the next n bytes to the client library.
func (c *incoming) pass(n int) {
	if c.passed < c.inspected {
		copy(c.buffer[c.passed:], c.buffer[c.inspected:c.inspected+n])
	}
	c.passed, c.inspected = c.passed+n, c.inspected+n
}

// replacement returns a frame to use in place of frame, nil for the frame itself.
func (c *incoming) replacement(frame []byte) []byte {
	if frame[0] == frameContent {
		return stash(frame)
	}
	if !c.tuned && isTuneMethod(frame, methodTune) {
		c.tuned = true
		c.raiseFrameMax(frame)
	}
	return nil
}
