package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
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
	work   sync.WaitGroup    // connections, acceptors and vhosts' clocks

	mu          sync.Mutex // guards what follows
	closed      bool
	dismissed   bool
	listeners   map[net.Listener]bool // whether they are for the inside
	connections map[*connection]struct{}
	open        int // connections that were let in
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
		listeners:   map[net.Listener]bool{},
		connections: map[*connection]struct{}{},
	}
	for _, name := range cfg.VHosts {
		v := newVHost(b, name)
		b.vhosts[name] = v
		b.work.Go(v.watchClock)
	}
	b.log.Info("embedded broker keeps messages in memory only", "memory_limit_bytes", cfg.Limits.Memory)
	return b
}

// Listen takes connections at a TCP address such as 127.0.0.1:0, until Close. It
// returns the address that it got.
func (b *Broker) Listen(addr string) (net.Addr, error) { return b.listen(addr, false) }

// ListenInside is Listen for the process that the broker is a part of, which takes
// messages out of queues and often has to publish before it can acknowledge them.
// It is stopped only at twice the memory limit, lest a full broker stay full, and
// Dismiss leaves it.
func (b *Broker) ListenInside(addr string) (net.Addr, error) { return b.listen(addr, true) }

func (b *Broker) listen(addr string, inside bool) (net.Addr, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for AMQP: %w", err)
	}
	if err := b.spawn(func() { _ = b.serve(listener, inside) }); err != nil {
		listener.Close()
		return nil, err
	}
	return listener.Addr(), nil
}

// Serve takes connections from a listener, which it closes, until Close or until
// the listener fails. Its error is ErrClosed or the listener's.
func (b *Broker) Serve(listener net.Listener) error { return b.serve(listener, false) }

func (b *Broker) serve(listener net.Listener, inside bool) error {
	defer listener.Close()
	if !b.track(listener, inside) {
		return ErrClosed
	}
	defer b.forget(listener)
	for {
		stream, err := listener.Accept()
		if err != nil {
			return b.acceptError(err)
		}
		if err := b.accept(stream, inside); err != nil {
			stream.Close()
			return err
		}
	}
}

func (b *Broker) acceptError(err error) error {
	select {
	case <-b.done:
		return ErrClosed
	default:
		return fmt.Errorf("accept AMQP connection: %w", err)
	}
}

// Dial returns a connection to the broker inside the process, such as for
// amqp.Config.Dial. The pipe holds nothing, which is well since the broker goes on
// reading a client that does not read. Its error is ErrClosed.
func (b *Broker) Dial() (net.Conn, error) {
	client, server := net.Pipe()
	if err := b.accept(server, false); err != nil {
		return nil, err
	}
	return client, nil
}

func (b *Broker) accept(stream net.Conn, inside bool) error {
	c := newConnection(b, stream)
	c.inside = inside
	return b.spawn(c.serve)
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

func (b *Broker) track(listener net.Listener, inside bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	refused := b.closed || b.dismissed && !inside
	if !refused {
		b.listeners[listener] = inside
	}
	return !refused
}

func (b *Broker) forget(listener net.Listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listeners, listener)
}

// register takes notice of a connection that begins; false where there are so many
// that not even a refusal can be had.
func (b *Broker) register(c *connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.connections) >= refusals*b.cfg.Limits.Connections {
		return false
	}
	b.connections[c] = struct{}{}
	if b.dismissed && !c.inside {
		c.shutDown()
	}
	return true
}

// refusals times as many connections as may be open get as far as to be told so.
const refusals = 2

// admit lets a connection in that has logged in; false where there are too many.
func (b *Broker) admit(c *connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.admitted = b.open < b.cfg.Limits.Connections
	if c.admitted {
		b.open++
	}
	return c.admitted
}

func (b *Broker) unregister(c *connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.connections, c)
	if c.admitted {
		b.open--
	}
}
