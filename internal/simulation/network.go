package simulation

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/watershipmq/watership/broker"
)

// randomness returns random numbers of a seed that no other name has.
func randomness(seed uint64, name ...any) *rand.Rand {
	return rand.New(rand.NewPCG(seed, drawn(seed, name...)))
}

// drawn returns one random number of a seed and a name.
func drawn(seed uint64, name ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, append([]any{seed}, name...)...)
	return h.Sum64() * 0x9e3779b97f4a7c15 >> 7
}

// network connects clients to the broker. It delivers their frames after latencies from the
// seed, each stream in its order.
type network struct {
	seed   uint64
	broker *broker.Broker
	note   func(host, direction string, frames []byte)

	mu      sync.Mutex               // guards the fields below
	hosts   map[string]*pipeListener // HTTP servers, by address
	streams map[string][]*stream     // by host
	number  int                      // of streams
}

func newNetwork(seed uint64, b *broker.Broker, note func(host, direction string, frames []byte)) *network {
	return &network{seed: seed, broker: b, note: note, hosts: map[string]*pipeListener{}, streams: map[string][]*stream{}}
}

// serve runs an HTTP server at an address until closeServer is called.
func (n *network) serve(address string, handler http.Handler) (closeServer func()) {
	listener := newPipeListener()
	n.mu.Lock()
	n.hosts[address] = listener
	n.mu.Unlock()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	return func() {
		_ = server.Close()
		<-ended
	}
}

func (n *network) listenerAt(address string) *pipeListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[address]
}

var errUnreachable = errors.New("the network does not reach it")

// dial connects a host to the HTTP server of an address, or else to the broker.
func (n *network) dial(host, address string) (near net.Conn, err error) {
	runRight(func() { near, err = n.connect(host, address) })
	return near, err
}

func (n *network) connect(host, address string) (far net.Conn, err error) {
	if listener := n.listenerAt(address); listener != nil {
		far, err = listener.dial()
	} else {
		far, err = n.broker.Dial("tcp", address)
	}
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number++
	near, middle := net.Pipe()
	s := &stream{host: host, number: n.number, client: middle, server: far}
	s.out, s.in = newPump(s, n, "out"), newPump(s, n, "in")
	s.start()
	n.streams[host] = append(n.streams[host], s)
	return near, nil
}

// of returns the open streams of the hosts that begin with a name, the oldest first.
func (n *network) of(name string) (open []*stream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for host, streams := range n.streams {
		if strings.HasPrefix(host, name) {
			for _, s := range streams {
				if !s.isClosed() {
					open = append(open, s)
				}
			}
		}
	}
	slices.SortFunc(open, func(a, b *stream) int { return a.number - b.number })
	return open
}

// stream is a connection of a host.
type stream struct {
	host           string
	number         int
	client, server net.Conn
	out, in        *pump // to the server, to the client
	once           sync.Once
	name           atomic.Value // string: of the connection, once the client has said it
}

func (s *stream) start() {
	go s.out.read(s.client)
	go s.out.write(s.server, s.cut)
	go s.in.read(s.server)
	go s.in.write(s.client, s.cut)
}

// nameOf returns the name that a client gives its connection in connection.start-ok, "" before
// that. The order in which the connections of a process open is not of the seed.
func (s *stream) nameOf(sent []byte) string {
	if name, named := s.name.Load().(string); named {
		return name
	}
	_, after, found := bytes.Cut(sent, []byte("connection_nameS"))
	if !found || len(after) < 4 {
		return ""
	}
	size := binary.BigEndian.Uint32(after)
	name := string(after[4:][:min(int(size), len(after)-4)])
	s.name.Store(name)
	return name
}

// cut ends the stream, and loses the frames that it has not delivered yet.
func (s *stream) cut() {
	s.once.Do(func() {
		s.out.end()
		s.in.end()
		_ = s.client.Close()
		_ = s.server.Close()
	})
}

func (s *stream) isClosed() bool { return s.out.ended() }

// pump delivers the chunks of one direction after a latency. It reads at once, so that a writer
// never waits for it while it has a lock. A latency depends on the seed, the connection and the
// time alone, so that it does not matter how the client divides its frames.
type pump struct {
	stream    *stream
	seed      uint64
	note      func(host, direction string, frames []byte)
	direction string
	done      chan struct{}
	more      chan struct{} // has an element after a change

	mu      sync.Mutex // guards the fields below
	chunks  []chunk
	factor  int       // of latencies
	stalled time.Time // until then nothing is delivered
	closing bool      // the reader has ended
}

type chunk struct {
	bytes []byte
	due   time.Time
}

func newPump(s *stream, n *network, direction string) *pump {
	return &pump{stream: s, seed: n.seed, note: n.note, direction: direction, factor: 1, done: make(chan struct{}), more: make(chan struct{}, 1)}
}

// arrival returns when frames that are sent now arrive, after those before them. No two connections
// deliver at the same moment.
func (p *pump) arrival(sent []byte) time.Time {
	name := p.stream.nameOf(sent)
	latency := 50*time.Microsecond + time.Duration(drawn(p.seed, p.stream.host, name, p.direction, time.Now().UnixNano())%1000)*time.Microsecond
	due := time.Now().Add(time.Duration(p.factor) * latency).Truncate(10 * time.Microsecond)
	due = due.Add(10*time.Microsecond + time.Duration(drawn(p.seed, p.stream.host, name, p.direction)%9973))
	if last := len(p.chunks) - 1; last >= 0 && p.chunks[last].due.After(due) {
		due = p.chunks[last].due
	}
	return due
}

func (p *pump) end() { close(p.done) }

func (p *pump) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// read takes what from has until it ends.
func (p *pump) read(from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		if n > 0 {
			p.chunks = append(p.chunks, chunk{bytes.Clone(buffer[:n]), p.arrival(buffer[:n])})
		}
		p.closing = err != nil
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// write delivers the chunks in their order, and cuts the stream after the last of a reader that
// has ended.
func (p *pump) write(to net.Conn, cut func()) {
	defer cut()
	for {
		next, wait, ok := p.next()
		switch {
		case next != nil:
			p.note(p.stream.host, p.direction, next)
			if _, err := to.Write(next); err != nil {
				return
			}
		case !ok:
			return
		case wait > 0:
			select {
			case <-time.After(wait):
			case <-p.done:
				return
			}
		default:
			select {
			case <-p.more:
			case <-p.done:
				return
			}
		}
	}
}

// next returns the next chunk if it is due, or how long to wait for it; 0: until there is one. It
// is not ok after the last.
func (p *pump) next() (due []byte, wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended() || len(p.chunks) == 0 {
		return nil, 0, !p.closing && !p.ended()
	}
	at := p.chunks[0].due
	if p.stalled.After(at) {
		at = p.stalled
	}
	if wait := time.Until(at); wait > 0 {
		return nil, wait, true
	}
	due = p.chunks[0].bytes
	p.chunks = p.chunks[1:]
	return due, 0, true
}

// stall delivers nothing for a time.
func (p *pump) stall(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = time.Now().Add(d).Add(time.Duration(drawn(p.seed, p.stream.host, p.stream.number, p.direction) % 9973))
}

// slow multiplies the latencies from now on.
func (p *pump) slow(factor int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.factor = factor
}

// pipeListener implements net.Listener for connections in the bubble.
type pipeListener struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.accepted <- far:
		return near, nil
	case <-l.closed:
		return nil, errUnreachable
	}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

// Network implements net.Addr.
func (pipeAddr) Network() string { return "pipe" }

// String implements net.Addr.
func (pipeAddr) String() string { return "simulation" }
