package broker

import (
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// connection is one client's connection. Its reader goroutine owns it.
type connection struct {
	broker            *Broker
	log               *slog.Logger
	stream            net.Conn
	in                *frameReader
	out               *outbox
	writerDone        chan struct{} // closed when the writer has ended
	heartbeatInterval chan time.Duration

	acceptedAt   time.Time
	internal     bool          // see ListenInternal
	readTimeout  time.Duration // zero: none
	readDeadline time.Time     // in place of it where it is not zero
	closing      atomic.Bool   // connection.close is sent; only its answer counts
	blocked      atomic.Bool   // see awaitMemory

	// Of the handshake, and final when the connection is admitted.
	user           string
	mechanism      string
	client         table // its properties
	heartbeat      time.Duration
	openedAt       time.Time
	vhost          *vhost // nil before connection.open
	capabilities   table
	frameMax       uint32
	channelMax     uint32
	admitted       bool // counts as open; guarded by broker.mu
	closedByClient bool // closed by the client, which has still to hang up; guarded by broker.mu

	channels    map[uint16]*channel // guarded by vhost.mu for writing, and for reading by others
	unconfirmed []*channel          // that have confirms to send
}

func newConnection(b *Broker, stream net.Conn) *connection {
	c := &connection{
		broker:            b,
		log:               b.log.With("client", stream.RemoteAddr().String()),
		stream:            stream,
		out:               newOutbox(),
		acceptedAt:        time.Now(),
		writerDone:        make(chan struct{}),
		heartbeatInterval: make(chan time.Duration, 1),
		channels:          map[uint16]*channel{},
	}
	c.in = newFrameReader(timedReader{c}, b.cfg.Limits.FrameMax)
	return c
}

// timedReader ends the connection of a client that says nothing for too long.
type timedReader struct{ c *connection }

func (r timedReader) Read(p []byte) (int, error) {
	deadline := r.c.readDeadline
	if deadline.IsZero() && r.c.readTimeout > 0 {
		deadline = time.Now().Add(r.c.readTimeout)
	}
	if err := r.c.stream.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	return r.c.stream.Read(p)
}

// serve is the reader: it runs until the connection ends, and leaves nothing.
func (c *connection) serve() {
	if !c.broker.register(c) {
		c.log.Warn("connection refused", "reason", "far too many connections")
		c.stream.Close()
		return
	}
	defer c.broker.unregister(c)
	go c.write()
	c.readDeadline = time.Now().Add(handshakeTimeout)
	err := c.handshake()
	c.readDeadline = time.Time{}
	if err == nil {
		err = c.read()
	}
	c.finish(err)
}

// release takes back all that the client holds: what came of messages, consumers,
// unacknowledged messages, exclusive queues. It may be called again.
func (c *connection) release() {
	c.broker.memory.endExemption(c)
	if c.vhost == nil {
		return
	}
	c.vhost.lock()
	defer c.vhost.unlock()
	for _, ch := range c.channels {
		ch.dropContent()
	}
	c.vhost.release(slices.Collect(maps.Values(c.channels))...)
	clear(c.channels)
	c.unconfirmed = nil
	c.vhost.deleteExclusive(c)
}

// write is the writer: it sends the outbox, and heartbeats when there was nothing
// else to send (§4.2.7).
func (c *connection) write() {
	defer close(c.writerDone)
	var ticks <-chan time.Time
	idle := false
	for {
		select {
		case <-c.out.wake:
		case interval := <-c.heartbeatInterval:
			ticker := time.NewTicker(interval / 2) // twice as often as promised, as RabbitMQ
			defer ticker.Stop()
			ticks = ticker.C
		case <-ticks:
			if idle {
				c.out.heartbeat()
			}
			idle = true
		}
		wrote, ended, err := c.flush()
		if err != nil {
			c.stream.Close() // which ends the reader
			return
		}
		if ended {
			return
		}
		idle = idle && !wrote
	}
}

func (c *connection) flush() (wrote, ended bool, err error) {
	batch, stalled, ended := c.out.takeBatch()
	if stalled {
		c.vhost.resume(c)
	}
	if len(batch) > 0 {
		_, err = c.stream.Write(batch)
	}
	c.out.recycle(batch)
	return len(batch) > 0, ended, err
}

// hasCapability says whether the client said that it understands an extension.
func (c *connection) hasCapability(of string) bool {
	f, there := c.capabilities.lookup(of)
	able, _ := f.boolean()
	return there && able
}
