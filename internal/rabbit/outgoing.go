package rabbit

import (
	"net"
	"sync"
	"sync/atomic"
)

// gatherMax is the maximum of bytes gathered for one write.
const gatherMax = 64 << 10

// outgoing is the stream from the client library to the broker. Each frame is a
// write of its own, unless a caller of hold gathers several.
type outgoing struct {
	cutter
	*negotiated
	to       net.Conn
	answered bool   // tune-ok was sent: frames follow
	begun    []byte // start of an incomplete frame

	mu       sync.Mutex // guards the fields below
	holders  int
	gathered []byte
	err      error // of the stream

	broken atomic.Bool // err is set; readable during a write, which holds mu
}

// hold gathers writes until release was called as often as hold. In between, the
// caller must not wait for a reply of the broker.
func (c *outgoing) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders++
}

// release writes the gathered bytes. A failed write closes the stream, which
// reports the failure to the client library.
func (c *outgoing) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders--; c.holders == 0 && len(c.gathered) > 0 && c.flush(nil) != nil {
		_ = c.to.Close()
	}
}

func (c *outgoing) Write(p []byte) (int, error) {
	if !c.answered {
		return c.answer(p)
	}
	b := p
	if len(c.begun) > 0 {
		b = append(c.begun, p...)
	}
	rest, err := c.send(b)
	if err != nil {
		return 0, err
	}
	c.begun = append(c.begun[:0], rest...)
	return len(p), nil
}

// send writes the complete frames in b, and returns the start of an incomplete one.
// The client library writes whole frames before it waits for a reply, so the rest
// of the frame follows.
func (c *outgoing) send(b []byte) (rest []byte, err error) {
	clean := 0
	for clean < len(b) {
		pass, whole := c.cut(b[clean:])
		if pass+whole == 0 {
			break
		}
		if whole > 0 {
			if instead := putBack(b[clean : clean+whole]); instead != nil {
				if err := c.write(b[:clean]); err != nil {
					return nil, err
				}
				if err := c.write(instead); err != nil {
					return nil, err
				}
				b, clean = b[clean+whole:], 0
				continue
			}
		}
		clean += pass + whole
	}
	return b[clean:], c.write(b[:clean])
}

func (c *outgoing) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders == 0 || len(b) > gatherMax {
		return c.flush(b)
	}
	if len(c.gathered)+len(b) > gatherMax {
		if err := c.flush(nil); err != nil {
			return err
		}
	}
	c.gathered = append(c.gathered, b...)
	return c.err
}

// failed reports whether a write to the stream has failed.
func (c *outgoing) failed() bool { return c.broken.Load() }

// flush writes the gathered bytes, then b. The caller holds mu.
func (c *outgoing) flush(b []byte) error {
	if c.err != nil {
		return c.err
	}
	if len(c.gathered) > 0 {
		b = append(c.gathered, b...)
		c.gathered = c.gathered[:0]
	}
	if _, c.err = c.to.Write(b); c.err != nil {
		c.broken.Store(true)
	}
	return c.err
}
