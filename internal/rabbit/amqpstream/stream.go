// Package amqpstream passes AMQP frames between a broker and the client library
// amqp091-go. It decodes the deliveries of a Consumer itself. It changes only frames that would
// end the connection, and those whose headers were encoded in advance (EncodedHeaders):
//
//   - The broker sends frames larger than negotiated: the client library gets a
//     larger frame-max than the broker.
//   - The client library cannot decode the headers of a message: it gets them as one
//     byte array, in a header named UnreadableHeaders.
package amqpstream

import "net"

// Conn is a stream between the broker and the client library. The client library
// reads on its reader goroutine and writes under its writer lock; it writes tune-ok
// after it has read tune, which orders the two.
type Conn struct {
	net.Conn
	in  incoming
	out outgoing
}

// New wraps the stream to a broker, after TLS. With largeFrames, the client library
// gets a frame-max of 16 MiB instead of the negotiated one.
func New(stream net.Conn, largeFrames bool) *Conn {
	shared := &negotiated{largeFrames: largeFrames}
	return &Conn{
		Conn: stream,
		in:   incoming{from: stream, frames: splitter{methods: true}, negotiated: shared},
		out:  outgoing{to: stream, negotiated: shared},
	}
}

// Read returns bytes of the broker for the client library.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write sends bytes of the client library to the broker.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	if err != nil {
		return n, &WriteError{err}
	}
	return n, nil
}

// WriteError is the error of a failed write to the broker. The client library passes it
// on, so that it differs from an error of a value that cannot be encoded.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the network.
func (e *WriteError) Unwrap() error { return e.Err }

// Cork gathers writes until Uncork was called as often as Cork. In between, the
// caller must not wait for a reply of the broker.
func (c *Conn) Cork() { c.out.cork() }

// Uncork writes the gathered bytes. A failed write closes the stream, which reports
// the failure to the client library.
func (c *Conn) Uncork() { c.out.uncork() }

// WriteFailed reports whether a write to the broker has failed.
func (c *Conn) WriteFailed() bool { return c.out.failed.Load() }

// ReadError returns the read error of the stream; nil without one, and for EOF and
// closed connections.
func (c *Conn) ReadError() error { return c.in.readError() }
