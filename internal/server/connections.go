package server

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// connections is a listener with a limit of open connections. Beyond it, a new connection ends
// the one that has waited longest for its next request, or that is served what everybody may
// ask for: connections that send half a request take no place from health checks, which need
// theirs for a moment.
type connections struct {
	net.Listener
	all, each int // at a time, and of one address

	mu   sync.Mutex    // guards the field below, and the requests of connections
	open []*connection // the one that has waited longest first
}

// connection is an open connection.
type connection struct {
	net.Conn
	of       *connections
	address  string
	requests int // that the guard has admitted
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: accepted, of: l, address: accepted.RemoteAddr().String()}
		if host, _, err := net.SplitHostPort(c.address); err == nil {
			c.address = host
		}
		ended, added := l.add(c)
		if ended != nil {
			_ = ended.Conn.Close()
		}
		if added {
			return c, nil
		}
		_ = accepted.Close()
	}
}

// add adds a connection, and returns the one to close for it.
func (l *connections) add(c *connection) (ended *connection, added bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ofAddress := 0
	for _, other := range l.open {
		if other.address == c.address {
			ofAddress++
		}
	}
	isFull := len(l.open) >= l.all
	if ofAddress >= l.each || isFull {
		at := slices.IndexFunc(l.open, func(other *connection) bool {
			return other.requests == 0 && (ofAddress < l.each || other.address == c.address)
		})
		if at < 0 {
			return nil, false
		}
		ended = l.open[at]
		l.open = slices.Delete(l.open, at, at+1)
	}
	l.open = append(l.open, c)
	return ended, true
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	if at := slices.Index(c.of.open, c); at >= 0 {
		c.of.open = slices.Delete(c.of.open, at, at+1)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// count counts the admitted requests of a connection. After the last one it waits again.
func (c *connection) count(n int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.requests += n
	if at := slices.Index(c.of.open, c); at >= 0 && c.requests == 0 {
		c.of.open = append(slices.Delete(c.of.open, at, at+1), c)
	}
}

type connectionKey struct{}

// withConnection is for http.Server.ConnContext.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if secure, is := conn.(interface{ NetConn() net.Conn }); is {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, conn)
}

// keepConnection keeps the connections of the requests to a handler open.
func keepConnection(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, is := r.Context().Value(connectionKey{}).(*connection); is {
			c.count(1)
			defer c.count(-1)
		}
		next.ServeHTTP(w, r)
	})
}
