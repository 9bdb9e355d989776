package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// errClosedByClient ends the reader after connection.close of the client.
var errClosedByClient = errors.New("connection closed by the client")

// clientCloseTimeout is the time for a client to end the stream after it has closed its
// connection. RabbitMQ waits for the heartbeat time-out, at most 30 s.
const clientCloseTimeout = 10 * time.Second

// finish closes the connection with an error that a client can read, releases its
// resources, and waits for the writer.
func (c *connection) finish(err error) {
	if refused, cause := errorReply(err); refused != nil {
		c.log.Warn("connection closed", "error", err)
		c.closeWithError(refused, cause)
		c.release()
		c.awaitCloseOK()
	} else if err != nil && !c.closing.Load() && !isCleanEnd(err) {
		c.log.Info("connection lost", "error", err)
	}
	c.release()
	c.out.close()
	_ = c.stream.SetWriteDeadline(time.Now().Add(closeTimeout))
	<-c.writerDone
	if errors.Is(err, errClosedByClient) {
		c.awaitClientClose()
	}
	c.stream.Close()
}

// awaitClientClose reads until the client ends the stream. Another thread of the client
// may still be writing, and closing a stream with unread bytes resets it, so that the
// client loses the close-ok that it has not read yet.
func (c *connection) awaitClientClose() {
	if !c.broker.markClosedByClient(c) {
		return
	}
	if half, ok := c.stream.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // for a client that waits for the end of the stream
	}
	_ = c.stream.SetReadDeadline(time.Now().Add(clientCloseTimeout))
	_, _ = io.Copy(io.Discard, c.stream)
}

// isCleanEnd reports whether the connection ended without an error.
func isCleanEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, errConnectionEnded) || errors.Is(err, errClosedByClient)
}

// methodError is an exception with the method that caused it.
type methodError struct {
	*exception
	cause methodID
}

func errorReply(err error) (refused *exception, cause methodID) {
	var by *methodError
	if errors.As(err, &by) {
		return by.exception, by.cause
	}
	errors.As(err, &refused)
	return refused, 0
}

// closeWithError closes the connection with an error and the method that caused it;
// zero for none. Any goroutine may call it.
func (c *connection) closeWithError(e *exception, cause methodID) {
	if c.closing.Swap(true) {
		return
	}
	c.out.closeWith(connectionClose, closeArguments(e, cause))
}

// shutDown closes the connection because the broker shuts down. broker.mu is held.
func (c *connection) shutDown() {
	if c.closedByClient {
		c.closeStream()
		return
	}
	c.closeWithError(newException(connectionForced, "broker forced connection closure with reason 'shutdown'"), 0)
}

func closeArguments(e *exception, cause methodID) func([]byte) []byte {
	return func(b []byte) []byte {
		b = appendShortstr(binary.BigEndian.AppendUint16(b, e.code), e.text)
		return binary.BigEndian.AppendUint32(b, uint32(cause))
	}
}

// awaitCloseOK reads until close-ok (§1.4.2.6), since closing the stream at once could
// destroy the error that the client has not read yet.
func (c *connection) awaitCloseOK() {
	c.readTimeout = closeTimeout
	timer := time.AfterFunc(closeTimeout, c.closeStream)
	defer timer.Stop()
	var tail []byte
	for {
		chunk, err := c.in.rawBytes()
		if tail = append(tail, chunk...); err != nil || bytes.Contains(tail, closeOKFrame()) {
			return
		}
		tail = append([]byte(nil), tail[max(0, len(tail)-len(closeOKFrame())):]...)
	}
}

// closeOKFrame returns connection.close-ok as a frame. awaitCloseOK searches for its
// bytes, since the bytes before it may be a malformed frame.
func closeOKFrame() []byte { return appendMethod(nil, 0, connectionCloseOK, nil) }

func isCloseOK(f frame) bool {
	return f.kind == frameMethod && len(f.payload) >= 4 &&
		methodID(binary.BigEndian.Uint32(f.payload)) == connectionCloseOK
}

// closeStream ends the TCP connection, and with it the reads and writes of the broker.
func (c *connection) closeStream() { c.stream.Close() }
