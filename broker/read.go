package broker

import (
	"encoding/binary"
	"errors"
)

// errGoodbye ends the reader after a close that all agree on.
var errGoodbye = errors.New("connection closed")

// read takes frames until the connection ends.
func (c *connection) read() error {
	for {
		if !c.in.ready() {
			c.confirm()
		}
		if err := c.pause(); err != nil {
			return err
		}
		f, err := c.in.next()
		if err != nil {
			return err
		}
		if err := c.take(f); err != nil {
			return err
		}
		if f.kind == frameHeader || f.kind == frameBody {
			c.awaitMemory()
		}
	}
}

// take does what a frame asks. Its error ends the connection.
func (c *connection) take(f frame) error {
	switch {
	case c.closing.Load():
		if isCloseOK(f) {
			return errGoodbye
		}
		return nil
	case f.kind == frameHeartbeat && f.channel == 0:
		return nil
	case f.kind == frameHeartbeat:
		return unexpected(f)
	case f.kind != frameMethod && f.kind != frameHeader && f.kind != frameBody:
		return frameError(f.kind, f.payload, "unknown_frame")
	case f.channel == 0:
		return c.control(f)
	}
	return c.dispatch(f)
}

func unexpected(f frame) *exception {
	return fail(unexpectedFrame, "type %d, %s", f.kind, octetsOf(f.payload))
}

// control does what a frame on channel 0 asks.
func (c *connection) control(f frame) error {
	if f.kind != frameMethod {
		return unexpected(f)
	}
	id, _, err := parseMethod(f)
	if err != nil {
		return err
	}
	switch id {
	case connectionClose:
		c.release()
		c.out.finish(connectionCloseOK, nil)
		return errLeaving
	case connectionCloseOK:
		return errGoodbye
	case connectionUpdateSecret: // a password does not end
		c.out.method(0, connectionUpdateSecretOK, nil)
		return nil
	}
	return &caused{fail(channelError, "unexpected method in connection state running"), id}
}

func parseMethod(f frame) (methodID, decoder, *exception) {
	if len(f.payload) < 4 {
		return 0, decoder{}, frameError(f.kind, f.payload, "unknown_frame")
	}
	return methodID(binary.BigEndian.Uint32(f.payload)), decoder{rest: f.payload[4:]}, nil
}

// dispatch gives a frame to its channel.
func (c *connection) dispatch(f frame) error {
	ch, there := c.channels[f.channel]
	if !there {
		return c.openChannel(f)
	}
	cause, err := ch.take(f)
	if err == nil {
		return nil
	}
	if err.hard() {
		return &caused{err, cause}
	}
	c.log.Warn("channel closed", "channel", f.channel, "error", err)
	ch.fail(err, cause)
	return nil
}

func (c *connection) openChannel(f frame) error {
	id, _, err := parseMethod(f)
	if err != nil {
		return err
	}
	switch {
	case f.kind == frameMethod && id == channelCloseOK:
		return nil // of a channel that both sides closed
	case f.kind != frameMethod || id != channelOpen:
		return &caused{fail(channelError, "expected 'channel.open'"), id}
	case len(c.channels) >= int(c.channelMax):
		return &caused{fail(notAllowed, "number of channels opened (%d) has reached the negotiated channel_max (%d)",
			len(c.channels), c.channelMax), id}
	}
	c.vhost.lock()
	c.channels[f.channel] = newChannel(c, f.channel)
	c.vhost.unlock()
	c.out.method(f.channel, channelOpenOK, func(b []byte) []byte { return appendLongstr(b, "") })
	return nil
}

// pause keeps the reader from a client that asks for more than it reads.
func (c *connection) pause() error {
	for {
		room := c.out.full()
		if room == nil {
			return nil
		}
		select {
		case <-room:
		case <-c.gone:
			return errGoodbye
		}
	}
}

// confirm tells publishers what has been taken since. The reader calls it before
// it waits for the client, so that a burst gets one confirm.
func (c *connection) confirm() {
	for _, ch := range c.unsettled {
		ch.sendConfirms()
	}
	c.unsettled = c.unsettled[:0]
}
