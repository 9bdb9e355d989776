package broker

import (
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// connection is the connection of a client. Its reader goroutine owns it.
type connection struct {
	broker            *Broker
	log               *slog.Logger
	stream            net.Conn
	in                *frameReader
	out               *outbox
	writerDone        chan struct{} // closed when the writer has ended
	ended             chan struct{} // closed when the reader has ended
	heartbeatInterval chan time.Duration

	number       int // of the connections that the broker has accepted
	acceptedAt   time.Time
	internal     bool          // see ListenInternal
	readTimeout  time.Duration // zero: none
	readDeadline time.Time     // replaces readTimeout where it is not zero
	closing      atomic.Bool   // connection.close is sent; only close-ok is handled
	blocked      atomic.Bool   // see awaitMemory

	// Set by the handshake, and constant when the connection is admitted.
	user           string
	mechanism      string
	client         table // client properties
	heartbeat      time.Duration
	openedAt       time.Time
	vhost          *vhost // nil before connection.open
	capabilities   table
	frameMax       uint32
	channelMax     uint32
	admitted       bool // counts as open; guarded by broker.mu
	closedByClient bool // by connection.close; guarded by broker.mu

	channels    map[uint16]*channel // guarded by vhost.mu for writing, and for reading by others
	unconfirmed []*channel          // with confirms to send
}

func newConnection(b *Broker, stream net.Conn) *connection {
	c := &connection{
		broker:            b,
		log:               b.log.With("client", stream.RemoteAddr().String()),
		stream:            stream,
		out:               newOutbox(),
		acceptedAt:        time.Now(),
		writerDone:        make(chan struct{}),
		ended:             make(chan struct{}),
		heartbeatInterval: make(chan time.Duration, 1),
		channels:          map[uint16]*channel{},
	}
	c.in = newFrameReader(timedReader{c}, b.cfg.Limits.FrameMax)
	return c
}

// timedReader ends the connection of a client that sends nothing for readTimeout.
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

// serve is the reader goroutine: it runs until the connection ends, and then releases
// its resources.
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

// release drops unfinished messages and transactions, requeues unacknowledged messages,
// and removes consumers and exclusive queues. A second call changes nothing.
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

// write is the writer goroutine: it sends the outbox, and heartbeats when it had
// nothing else to send (§4.2.7).
func (c *connection) write() {
	defer close(c.writerDone)
	var ticks <-chan time.Time
	idle := false
	for {
		select {
		case <-c.out.wake:
		case interval := <-c.heartbeatInterval:
			ticker := time.NewTicker(interval / 2) // twice as often as negotiated, like RabbitMQ
			defer ticker.Stop()
			ticks = ticker.C
		case <-ticks:
			if idle {
				c.out.heartbeat()
			}
			idle = true
		}
		wrote, closed, err := c.flush()
		if err != nil {
			c.stream.Close() // so that the reader ends
			return
		}
		if closed {
			return
		}
		idle = idle && !wrote
	}
}

func (c *connection) flush() (wrote, closed bool, err error) {
	batch, deliveryRefused, closed := c.out.takeBatch()
	if deliveryRefused {
		c.vhost.resume(c)
	}
	if len(batch) > 0 {
		_, err = c.stream.Write(batch)
	}
	c.out.recycle(batch)
	return len(batch) > 0, closed, err
}

// hasCapability reports whether the client properties have a capability.
func (c *connection) hasCapability(of string) bool {
	f, there := c.capabilities.lookup(of)
	able, _ := f.boolean()
	return there && able
}
