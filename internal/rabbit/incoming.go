package rabbit

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
)

// readAhead is how much is read at once: many small messages, in one system call.
const readAhead = 32 << 10

// incoming is what the client reads.
type incoming struct {
	cutter
	*negotiated
	from   net.Conn
	buffer []byte // read from the stream
	start  int    // what is before has been handed out
	clean  int    // what is before may be handed out
	err    error  // of the stream, for when everything has been handed out

	ended atomic.Pointer[error] // err, for others than the reader
}

// reason is why nothing more can be read, nil while more can or at a plain end.
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

// fill reads once. All that is clean has been handed out.
func (c *incoming) fill() {
	if c.start == len(c.buffer) && cap(c.buffer) > 4*readAhead {
		c.buffer = nil // do not keep what one large frame needed
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

// scan looks at the frames that have come. What is left of a stream that has
// failed goes up as it is.
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

// replace is what the client reads in place of a frame, nil for the frame itself.
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
