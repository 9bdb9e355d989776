package broker

import (
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
)

// TB is the part of testing.TB that Start and StartManagement use.
type TB interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// inProcess is the host of URL where the broker has no listener. The domain never
// resolves (RFC 2606).
const inProcess = "in-process.invalid"

// Start runs a broker on a free port of 127.0.0.1 until the test ends. URL returns
// its address.
//
// In a bubble of testing/synctest a socket stops the clock. There, use New, pass Dial
// to the client, and close the broker at the end of the bubble: TTLs, heartbeats and
// time-outs then follow the bubble's clock.
func Start(t TB, cfg Config) *Broker {
	t.Helper()
	b := New(cfg)
	t.Cleanup(func() { _ = b.Close() })
	if _, err := b.Listen("127.0.0.1:0"); err != nil {
		t.Fatalf("start a broker: %v", err)
	}
	return b
}

// URL returns the address for clients, with a login and a virtual host: guest and
// "/" where the broker has them. Without a listener, only a client that connects by
// Dial can use it.
func (b *Broker) URL() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := url.URL{Scheme: "amqp", User: b.login(), Host: inProcess}
	if b.address != nil {
		u.Host = b.address.String()
	}
	if vhost := b.cfg.VHosts[0]; vhost != "/" {
		u.Path, u.RawPath = "/"+vhost, "/"+url.PathEscape(vhost)
	}
	return u.String()
}

func (b *Broker) login() *url.Userinfo {
	if password, there := b.cfg.Users["guest"]; there {
		return url.UserPassword("guest", password)
	}
	for _, user := range slices.Sorted(maps.Keys(b.cfg.Users)) {
		return url.UserPassword(user, b.cfg.Users[user])
	}
	return nil
}

// StartManagement serves the management API on a free port of 127.0.0.1 until the
// test ends, and returns its URL with a login.
func (b *Broker) StartManagement(t TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start the management API: %v", err)
	}
	server := &http.Server{Handler: b.Management(), ReadHeaderTimeout: handshakeTimeout}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until Close
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return (&url.URL{Scheme: "http", User: b.login(), Host: listener.Addr().String()}).String()
}
