package rabbittest

import (
	"net"
	"net/url"
	"testing"
)

// SecondNode returns the URL of a node that refuses connections, and the broker as a further node of its cluster.
func (b Broker) SecondNode(t testing.TB) (address string, nodes []string) {
	t.Helper()
	u, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	nodes = []string{u.Host}
	u.Host = l.Addr().String()
	return u.String(), nodes
}
