package rabbittest

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// NamedProxy is a proxy between a test and its broker that knows the names of connections.
type NamedProxy struct {
	URL string // the broker's URL, through the proxy

	broker string

	mu     sync.Mutex // guards the fields below
	cut    bool
	refuse string              // the name of connections that are closed
	names  map[net.Conn]string // of open connections of clients
	closed sync.WaitGroup
}

// NamedProxy starts a proxy that ends with the test.
func (a Address) NamedProxy(t testing.TB) *NamedProxy {
	t.Helper()
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &NamedProxy{broker: u.Host, names: map[net.Conn]string{}}
	u.Host = listener.Addr().String()
	p.URL = u.String()
	p.closed.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.closed.Go(func() { p.forward(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.Cut()
		p.closed.Wait()
	})
	return p
}

// Close closes the connections with a name, and returns how many there were.
func (p *NamedProxy) Close(name string) (n int) {
	return p.closeAll(func(other string) bool { return other == name })
}

// Refuse closes the connections with a name, and those to come.
func (p *NamedProxy) Refuse(name string) {
	p.mu.Lock()
	p.refuse = name
	p.mu.Unlock()
	p.Close(name)
}

// Cut closes all connections, and those to come.
func (p *NamedProxy) Cut() {
	p.mu.Lock()
	p.cut = true
	p.mu.Unlock()
	p.closeAll(func(string) bool { return true })
}

func (p *NamedProxy) closeAll(match func(name string) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, name := range p.names {
		if match(name) {
			client.Close()
			n++
		}
	}
	return n
}

func (p *NamedProxy) setName(client net.Conn, name string) (open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names[client] = name
	return !p.cut && (name == "" || name != p.refuse)
}

func (p *NamedProxy) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.broker)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.setName(client, "") {
		return
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.names, client)
	}()
	var down sync.WaitGroup
	down.Go(func() {
		defer client.Close()
		_, _ = io.Copy(client, server)
	})
	start := make([]byte, 0, 4096) // has connection.start-ok with the name
	for len(start) < cap(start) {
		n, err := client.Read(start[len(start):cap(start)])
		_, _ = server.Write(start[len(start) : len(start)+n])
		start = start[:len(start)+n]
		if name, found := connectionName(start); found {
			if !p.setName(client, name) {
				client.Close()
			}
			break
		}
		if err != nil {
			break
		}
	}
	_, _ = io.Copy(server, client)
	server.Close()
	down.Wait()
}

// connectionName finds the name of a connection in its first frames.
func connectionName(sent []byte) (name string, found bool) {
	_, after, found := bytes.Cut(sent, []byte("connection_nameS")) // a long string
	if !found || len(after) < 4 || len(after) < 4+int(after[3]) {
		return "", false
	}
	return string(after[4 : 4+int(after[3])]), true
}
