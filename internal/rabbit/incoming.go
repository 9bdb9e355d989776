package rabbit

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
	cutter
	*negotiated
	from   net.Conn
	buffer []byte // read from the stream
	start  int    // buffer[:start] was returned by Read
	clean  int    // buffer[:clean] is inspected and may be returned by Read
	err    error  // of the stream, returned after the rest of buffer

	ended atomic.Pointer[error] // err, for goroutines other than the reader
}

// reason returns the read error of the stream; nil without one, and for EOF and
// closed connections.
func (c *incoming) reason() error {
	if ended := c.ended.Load(); ended != nil && !errors.Is(*ended, io.EOF) && !errors.Is(*ended, net.ErrClosed) {
		return *ended
	}
	return nil
}

func (c *incoming) Read(p []byte) (int, error) {
	for c.start == c.clean {
		if c.err != nil {
			return 0, c.err
		}
		c.fill()
		c.scan()
	}
	n := copy(p, c.buffer[c.start:c.clean])
	c.start += n
	return n, nil
}

// fill reads once from the stream. Read has returned buffer[:clean] before.
func (c *incoming) fill() {
	if c.start == len(c.buffer) && cap(c.buffer) > 4*readAhead {
		c.buffer = nil // release the memory of one large frame
	} else {
		c.buffer = c.buffer[:copy(c.buffer, c.buffer[c.start:])]
	}
	c.start, c.clean = 0, 0
	if cap(c.buffer)-len(c.buffer) < readAhead/2 {
		c.buffer = slices.Grow(c.buffer, readAhead)
	}
	n, err := c.from.Read(c.buffer[len(c.buffer):cap(c.buffer)])
	c.buffer, c.err = c.buffer[:len(c.buffer)+n], err
	if err != nil {
		c.ended.Store(&err)
	}
}

// scan inspects the received frames. After a read error the rest of the buffer
// passes unchanged.
func (c *incoming) scan() {
	for c.clean < len(c.buffer) {
		pass, whole := c.cut(c.buffer[c.clean:])
		if pass+whole == 0 {
			break
		}
		if whole > 0 {
			if instead := c.replace(c.buffer[c.clean : c.clean+whole]); instead != nil {
				c.buffer = slices.Replace(c.buffer, c.clean, c.clean+whole, instead...)
				whole = len(instead)
			}
		}
		c.clean += pass + whole
	}
	if c.err != nil {
		c.clean = len(c.buffer)
	}
}

// replace returns the bytes for the client to read in place of frame, nil for the
// frame unchanged.
func (c *incoming) replace(frame []byte) []byte {
	if frame[0] == frameContent {
		return setAside(frame)
	}
	if isMethod(frame, methodTune) {
		c.methods = false
		c.raise(frame)
	}
	return nil
}
