package amqpstream

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
)

// readAhead is the read size: many small messages in one system call.
const readAhead = 32 << 10

// incoming is the stream from the broker to the client library.
type incoming struct {
	*negotiated
	frames    splitter
	from      net.Conn
	buffer    []byte // read from the stream
	returned  int    // buffer[:returned] was returned by Read
	inspected int    // buffer[:inspected] may be returned by Read
	err       error  // of the stream, returned after the rest of buffer

	failed atomic.Pointer[error] // err, for goroutines other than the reader
}

func (c *incoming) readError() error {
	if err := c.failed.Load(); err != nil && !errors.Is(*err, io.EOF) && !errors.Is(*err, net.ErrClosed) {
		return *err
	}
	return nil
}

func (c *incoming) Read(p []byte) (int, error) {
	for c.returned == c.inspected {
		if c.err != nil {
			return 0, c.err
		}
		c.fill()
		c.replaceFrames()
	}
	n := copy(p, c.buffer[c.returned:c.inspected])
	c.returned += n
	return n, nil
}

// fill reads once from the stream. Read has returned buffer[:inspected] before.
func (c *incoming) fill() {
	if c.returned == len(c.buffer) && cap(c.buffer) > 4*readAhead {
		c.buffer = nil // release the memory of one large frame
	} else {
		c.buffer = c.buffer[:copy(c.buffer, c.buffer[c.returned:])]
	}
	c.returned, c.inspected = 0, 0
	if cap(c.buffer)-len(c.buffer) < readAhead/2 {
		c.buffer = slices.Grow(c.buffer, readAhead)
	}
	n, err := c.from.Read(c.buffer[len(c.buffer):cap(c.buffer)])
	c.buffer, c.err = c.buffer[:len(c.buffer)+n], err
	if err != nil {
		c.failed.Store(&err)
	}
}

// replaceFrames replaces frames in the buffer. After a read error the rest of the buffer
// passes unchanged.
func (c *incoming) replaceFrames() {
	for c.inspected < len(c.buffer) {
		pass, whole := c.frames.next(c.buffer[c.inspected:])
		if pass+whole == 0 {
			break
		}
		if whole > 0 {
			end := c.inspected + whole
			if changed := c.replacement(c.buffer[c.inspected:end]); changed != nil {
				c.buffer = slices.Replace(c.buffer, c.inspected, end, changed...)
				whole = len(changed)
			}
		}
		c.inspected += pass + whole
	}
	if c.err != nil {
		c.inspected = len(c.buffer)
	}
}

// replacement returns the bytes for the client library to read in place of frame, nil for
// the frame itself.
func (c *incoming) replacement(frame []byte) []byte {
	if frame[0] == frameContent {
		return stash(frame)
	}
	if isTuneMethod(frame, methodTune) {
		c.frames.methods = false
		c.raiseFrameMax(frame)
	}
	return nil
}
