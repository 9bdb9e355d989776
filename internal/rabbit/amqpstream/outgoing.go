package amqpstream

import (
	"net"
	"sync"
	"sync/atomic"
)

// maxCorked is the maximum of bytes gathered for one write.
const maxCorked = 64 << 10

// outgoing is the stream from the client library to the broker. Each frame is a
// separate write, unless the stream is corked.
type outgoing struct {
	*negotiated
	frames  splitter
	to      net.Conn
	tuned   bool   // tune-ok was sent: frames follow
	partial []byte // start of an incomplete frame

	mu     sync.Mutex // guards the fields below
	corks  int        // calls of cork without uncork
	corked []byte
	err    error // of the stream

	failed atomic.Bool // err is set; readable during a write, which holds mu
}

func (c *outgoing) cork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corks++
}

func (c *outgoing) uncork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.corks--; c.corks == 0 && len(c.corked) > 0 && c.flush(nil) != nil {
		_ = c.to.Close()
	}
}

func (c *outgoing) Write(p []byte) (int, error) {
	if !c.tuned {
		return c.writeHandshake(p)
	}
	b := p
	if len(c.partial) > 0 {
		b = append(c.partial, p...)
	}
	rest, err := c.send(b)
	if err != nil {
		return 0, err
	}
	c.partial = append(c.partial[:0], rest...)
	return len(p), nil
}

// send writes the complete frames in b, and returns the start of an incomplete one.
// The client library writes whole frames before it waits for a reply, so the rest
// of the frame follows.
func (c *outgoing) send(b []byte) (rest []byte, err error) {
	inspected := 0
	for inspected < len(b) {
		pass, whole := c.frames.next(b[inspected:])
		if pass+whole == 0 {
			break
		}
		if whole > 0 {
			if changed := restore(b[inspected : inspected+whole]); changed != nil {
				if err := c.write(b[:inspected]); err != nil {
					return nil, err
				}
				if err := c.write(changed); err != nil {
					return nil, err
				}
				b, inspected = b[inspected+whole:], 0
				continue
			}
		}
		inspected += pass + whole
	}
	return b[inspected:], c.write(b[:inspected])
}

func (c *outgoing) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.corks == 0 || len(b) > maxCorked {
		return c.flush(b)
	}
	if len(c.corked)+len(b) > maxCorked {
		if err := c.flush(nil); err != nil {
			return err
		}
	}
	c.corked = append(c.corked, b...)
	return c.err
}

// flush writes the corked bytes, then b. The caller holds mu.
func (c *outgoing) flush(b []byte) error {
	if c.err != nil {
		return c.err
	}
	if len(c.corked) > 0 {
		b = append(c.corked, b...)
		c.corked = c.corked[:0]
	}
	if _, c.err = c.to.Write(b); c.err != nil {
		c.failed.Store(true)
	}
	return c.err
}
