package broker

import (
	"encoding/binary"
	"errors"
)

// errConnectionEnded ends the reader after both sides have closed the connection.
var errConnectionEnded = errors.New("connection closed")

// read handles frames until the connection ends.
func (c *connection) read() error {
	for {
		if !c.in.hasFrame() {
			c.sendConfirms()
		}
		if err := c.awaitOutboxRoom(); err != nil {
			return err
		}
		f, err := c.in.next()
		if err != nil {
			return err
		}
		if err := c.handleFrame(f); err != nil {
			return err
		}
		if f.kind == frameHeader || f.kind == frameBody {
			c.awaitMemory()
		}
	}
}

// handleFrame handles a frame. Its error ends the connection.
func (c *connection) handleFrame(f frame) error {
	switch {
	case c.closing.Load():
		if isCloseOK(f) {
			return errConnectionEnded
		}
		return nil
	case f.kind == frameHeartbeat && f.channel == 0:
		return nil
	case f.kind == frameHeartbeat:
		return unexpected(f)
	case f.kind != frameMethod && f.kind != frameHeader && f.kind != frameBody:
		return frameError(f.kind, f.payload, "unknown_frame")
	case f.channel == 0:
		return c.handleControl(f)
	}
	return c.dispatch(f)
}

func unexpected(f frame) *exception {
	return newException(unexpectedFrame, "type %d, %s", f.kind, octetsOf(f.payload))
}

// handleControl handles a frame on channel 0.
func (c *connection) handleControl(f frame) error {
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
		c.out.closeWith(connectionCloseOK, nil)
		return errClosedByClient
	case connectionCloseOK:
		return errConnectionEnded
	case connectionUpdateSecret: // passwords do not expire
		c.out.method(0, connectionUpdateSecretOK, nil)
		return nil
	}
	return &methodError{newException(channelError, "unexpected method in connection state running"), id}
}

func parseMethod(f frame) (methodID, decoder, *exception) {
	if len(f.payload) < 4 {
		return 0, decoder{}, frameError(f.kind, f.payload, "unknown_frame")
	}
	return methodID(binary.BigEndian.Uint32(f.payload)), decoder{rest: f.payload[4:]}, nil
}

// dispatch passes a frame to its channel.
func (c *connection) dispatch(f frame) error {
	ch, there := c.channels[f.channel]
	if !there {
		return c.openChannel(f)
	}
	cause, err := ch.handleFrame(f)
	if err == nil {
		return nil
	}
	if err.hard() {
		return &methodError{err, cause}
	}
	c.log.Warn("channel closed", "channel", f.channel, "error", err)
	ch.closeWithError(err, cause)
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
		return &methodError{newException(channelError, "expected 'channel.open'"), id}
	case len(c.channels) >= int(c.channelMax):
		return &methodError{newException(notAllowed, "number of channels opened (%d) has reached the negotiated channel_max (%d)",
			len(c.channels), c.channelMax), id}
	}
	c.vhost.lock()
	c.channels[f.channel] = newChannel(c, f.channel)
	c.vhost.unlock()
	c.out.method(f.channel, channelOpenOK, func(b []byte) []byte { return appendLongstr(b, "") })
	return nil
}

// awaitOutboxRoom waits while the client does not read the replies to its methods.
func (c *connection) awaitOutboxRoom() error {
	for {
		room := c.out.awaitRoom()
		if room == nil {
			return nil
		}
		select {
		case <-room:
		case <-c.writerDone:
			return errConnectionEnded
		}
	}
}

// sendConfirms sends the confirms of all channels. The reader calls it before it waits
// for a frame, so that a burst of publishes gets one ack.
func (c *connection) sendConfirms() {
	for _, ch := range c.unconfirmed {
		ch.sendConfirms()
	}
	c.unconfirmed = c.unconfirmed[:0]
}
