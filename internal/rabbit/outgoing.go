package rabbit

import (
	"net"
	"sync"
	"sync/atomic"
)

// gatherMax is how much is written at once, in bytes, while somebody holds the stream.
const gatherMax = 64 << 10

// outgoing is what the client writes: each frame by itself, in a system call, unless
// somebody who has more to send holds the stream meanwhile.
type outgoing struct {
	cutter
	*negotiated
	to       net.Conn
	answered bool   // tune-ok has passed: frames follow
	begun    []byte // the beginning of a frame of which more will come

	mu       sync.Mutex // guards what follows
	holders  int
	gathered []byte
	err      error // of the stream

	broken atomic.Bool // err is set; for those who must not wait for a write
}

// hold gathers what is written until as many calls of release. In between the
// caller must wait for nothing that the broker has to answer.
func (c *outgoing) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders++
}

// release writes what was gathered. Its failure ends the stream, which is how the
// client hears of it.
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

// send returns the beginning of a frame that is not complete yet. The client
// writes whole frames before it waits for anything, so that the rest is coming.
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

// failed says whether the stream takes nothing any more.
func (c *outgoing) failed() bool { return c.broken.Load() }

// flush writes what was gathered, and b. The caller holds mu.
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
