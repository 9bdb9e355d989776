package broker

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
)

// ErrClosed says that the broker is closed.
var ErrClosed = errors.New("broker is closed")

// Broker is an AMQP broker. It runs until Close.
type Broker struct {
	cfg    Config
	log    *slog.Logger
	memory *memory
	vhosts map[string]*vhost // never changes
	done   chan struct{}     // closed by Close
	failed chan error        // has room for one
	work   sync.WaitGroup    // connections, acceptors and vhosts' clocks

	hasFaults atomic.Bool // there are faults
	refuseNew atomic.Bool // see RefuseConnections

	mu             sync.Mutex // guards what follows
	closed         bool
	externalClosed bool
	listeners      map[net.Listener]bool // whether they are for the inside
	connections    map[*connection]struct{}
	admitted       int              // connections that were let in
	address        net.Addr         // of the first listener; nil before Listen
	faults         []*injectedFault // never changed in place
}

// New returns a running broker that nobody can reach yet.
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

// register takes notice of a connection that begins. Where there are so many that not
// even a refusal can be had, it takes the place of the one that has been without a
// login for longest, so that connections that never log in keep nobody out.
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
	b.connections[c] = struct{}{}
	if b.externalClosed && !c.internal {
		c.shutDown()
	}
	return true
}

// oldestUnadmitted is the oldest connection that has no login, or has left; nil where
// there is none.
func (b *Broker) oldestUnadmitted() (slowest *connection) {
	for c := range b.connections {
		if !c.admitted && (slowest == nil || c.acceptedAt.Before(slowest.acceptedAt)) {
			slowest = c
		}
	}
	return slowest
}

// handshakesPerConnection times as many connections as may be open get as far as to be told so.
const handshakesPerConnection = 2

// admit lets a connection in that has logged in; false where there are too many.
func (b *Broker) admit(c *connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.admitted = b.admitted < b.cfg.Limits.Connections
	if c.admitted {
		b.admitted++
	}
	return c.admitted
}

// markClosedByClient makes room for another connection, as the client has closed this one. It
// returns false where the broker does not wait for the client to hang up.
func (b *Broker) markClosedByClient(c *connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releaseSlot(c)
	c.closedByClient = true
	return !b.closed && (!b.externalClosed || c.internal)
}

func (b *Broker) unregister(c *connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.connections, c)
	b.releaseSlot(c)
}

func (b *Broker) releaseSlot(c *connection) {
	if c.admitted {
		c.admitted = false
		b.admitted--
	}
}
