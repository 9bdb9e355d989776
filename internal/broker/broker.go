package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
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
	listeners   map[net.Listener]struct{}
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
		listeners:   map[net.Listener]struct{}{},
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
func (b *Broker) Listen(addr string) (net.Addr, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for AMQP: %w", err)
	}
	if err := b.spawn(func() { _ = b.Serve(listener) }); err != nil {
		listener.Close()
		return nil, err
	}
	return listener.Addr(), nil
}

// Serve takes connections from a listener, which it closes, until Close or until
// the listener fails. Its error is ErrClosed or the listener's.
func (b *Broker) Serve(listener net.Listener) error {
	defer listener.Close()
	if !b.track(listener) {
		return ErrClosed
	}
	defer b.forget(listener)
	for {
		stream, err := listener.Accept()
		if err != nil {
			return b.acceptError(err)
		}
		if err := b.accept(stream); err != nil {
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
	if err := b.accept(server); err != nil {
		return nil, err
	}
	return client, nil
}

func (b *Broker) accept(stream net.Conn) error {
	c := newConnection(b, stream)
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

func (b *Broker) track(listener net.Listener) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.listeners[listener] = struct{}{}
	}
	return !b.closed
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

// Close tells clients that the broker shuts down, gives them a moment to answer,
// and drops everything. It waits for the broker's goroutines.
func (b *Broker) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	for listener := range b.listeners {
		listener.Close()
	}
	for c := range b.connections {
		c.raise(fail(connectionForced, "broker forced connection closure with reason 'shutdown'"), 0)
	}
	b.mu.Unlock()
	b.waitAtMost(closeTimeout)
	return nil
}

// waitAtMost waits for all goroutines, and after a while ends what they wait for.
func (b *Broker) waitAtMost(patience time.Duration) {
	timer := time.AfterFunc(patience, b.hangUp)
	defer timer.Stop()
	b.work.Wait()
}

func (b *Broker) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.connections {
		c.hangUp()
	}
}
