package broker

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
)

// ErrClosed is the error of a broker after Close.
var ErrClosed = errors.New("broker is closed")

// Broker is an AMQP 0-9-1 broker. It runs until Close.
type Broker struct {
	cfg    Config
	log    *slog.Logger
	memory *memory
	vhosts map[string]*vhost // never changes
	done   chan struct{}     // closed by Close
	failed chan error        // has room for one
	work   sync.WaitGroup    // connections, listeners and the timers of virtual hosts

	hasFaults atomic.Bool
	refuseNew atomic.Bool // see RefuseConnections

	mu             sync.Mutex // guards the fields below
	closed         bool
	externalClosed bool
	listeners      map[net.Listener]bool // true: of ListenInternal
	connections    map[*connection]struct{}
	stopped        int              // by Restart, which may be called several times
	accepted       int              // connections
	admitted       int              // connections that logged in
	address        net.Addr         // of the first Listen; nil before it
	faults         []*injectedFault // copied for each change
}

// New returns a running broker without a listener.
func New(cfg Config) *Broker {
	cfg = cfg.withDefaults()
	b := &Broker{
		cfg:         cfg,
		log:         cfg.Logger,
		memory:      newMemory(cfg.Limits.Memory, cfg.Logger),
		vhosts:      map[string]*vhost{},
		done:        make(chan struct{}),
		failed:      make(chan error, 1),
		listeners:   map[net.Listener]bool{},
		connections: map[*connection]struct{}{},
	}
	for _, name := range cfg.VHosts {
		v := newVHost(b, name)
		b.vhosts[name] = v
		b.work.Go(v.runTimer)
	}
	b.log.Info("embedded broker keeps messages in memory only", "memory_limit_bytes", cfg.Limits.Memory)
	return b
}

// Dial connects a client to the broker without a socket, as amqp.Config.Dial of
// github.com/rabbitmq/amqp091-go. It ignores the network and the address. Its error is
// ErrClosed.
func (b *Broker) Dial(_, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	if err := b.accept(server, false); err != nil {
		return nil, err
	}
	return client, nil
}

// spawn runs f in a goroutine that Close waits for.
func (b *Broker) spawn(f func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	b.work.Go(f)
	return nil
}

// register adds a new connection. Where there are too many even to refuse it with an
// error, it drops the oldest one that has not logged in, so that connections without a
// login do not keep clients out.
func (b *Broker) register(c *connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.connections) >= handshakesPerConnection*b.cfg.Limits.Connections {
		slowest := b.oldestUnadmitted()
		if slowest == nil {
			return false
		}
		delete(b.connections, slowest)
		slowest.closeStream()
	}
	b.accepted++
	c.number = b.accepted
	b.connections[c] = struct{}{}
	if b.externalClosed && !c.internal || b.stopped > 0 {
		c.shutDown()
	}
	return true
}

// oldestUnadmitted returns the oldest connection that has not logged in or was closed
// by its client; nil where all are open.
func (b *Broker) oldestUnadmitted() (slowest *connection) {
	for c := range b.connections {
		if !c.admitted && (slowest == nil || c.acceptedAt.Before(slowest.acceptedAt)) {
			slowest = c
		}
	}
	return slowest
}

// handshakesPerConnection times Limits.Connections may be in a handshake: those over
// the limit are refused with an error.
const handshakesPerConnection = 2

// admit counts a connection that has logged in. It returns false where the limit is
// reached.
func (b *Broker) admit(c *connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.admitted = b.admitted < b.cfg.Limits.Connections
	if c.admitted {
		b.admitted++
	}
	return c.admitted
}

// markClosedByClient stops counting a connection that its client has closed. It returns
// false where the broker does not wait for the client to end the stream.
func (b *Broker) markClosedByClient(c *connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releaseSlot(c)
	c.closedByClient = true
	return !b.closed && b.stopped == 0 && (!b.externalClosed || c.internal)
}

func (b *Broker) unregister(c *connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.connections, c)
	b.releaseSlot(c)
	close(c.ended)
}

func (b *Broker) releaseSlot(c *connection) {
	if c.admitted {
		c.admitted = false
		b.admitted--
	}
}
