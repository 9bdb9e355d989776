package rabbit

import "net"

// outgoing is what the client writes.
type outgoing struct {
	cutter
	*negotiated
	to       net.Conn
	answered bool   // tune-ok has passed: frames follow
	held     []byte // the beginning of a frame of which more will come
}

func (c *outgoing) Write(p []byte) (int, error) {
	if !c.answered {
		return c.answer(p)
	}
	b := p
	if len(c.held) > 0 {
		b = append(c.held, p...)
	}
	rest, err := c.send(b)
	if err != nil {
		return 0, err
	}
	c.held = append(c.held[:0], rest...)
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
	_, err := c.to.Write(b)
	return err
}
