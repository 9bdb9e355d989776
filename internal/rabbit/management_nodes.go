package rabbit

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// nextManagementAfter is how long a node may take to answer before another is asked as well. A node
// without a majority accepts requests and does not answer; one with many queues takes a second or two.
const nextManagementAfter = 3 * time.Second

// managementNode is one address of the management API.
type managementNode struct {
	base    string // without user and trailing slash
	address string // ip:port in place of the host of base; "": the client looks it up
}

// managementCall is a request that any node can answer. Sent twice, it changes nothing more.
type managementCall struct {
	method, path string
	sent         []byte
}

// managementAnswer is the response of a node; err is its refusal.
type managementAnswer struct {
	body []byte
	err  error
}

// systemTransport looks names up as the system does.
type systemTransport struct{ *http.Transport }

// certifiedName is the key of the name that the certificate of an address must have.
type certifiedName struct{}

// dialTLS returns the function that opens connections to addresses of a name.
func dialTLS(trust *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conf := trust.Clone()
		if conf == nil {
			conf = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if name, has := ctx.Value(certifiedName{}).(string); has && conf.ServerName == "" {
			conf.ServerName = name
		}
		return (&tls.Dialer{Config: conf}).DialContext(ctx, network, address)
	}
}

// addresses lists the nodes for errors.
func (m *Management) addresses() string {
	all := make([]string, len(m.nodes))
	for i, node := range m.nodes {
		all[i] = node.base
	}
	return strings.Join(all, ", ")
}

// fetchFromAny returns the answer of the first node that answers.
func (m *Management) fetchFromAny(ctx context.Context, call managementCall) ([]byte, error) {
	first := int(m.answered.Load())
	var nodes []managementNode
	var of []int // index in m.nodes
	for i := range m.nodes {
		at := (first + i) % len(m.nodes)
		for _, node := range m.nodes[at].eachAddress(ctx, m) {
			nodes, of = append(nodes, node), append(of, at)
		}
	}
	type numbered struct {
		managementAnswer
		from int
	}
	var work sync.WaitGroup
	answer, err := race(ctx, &work, len(nodes), nextManagementAfter, func(ctx context.Context, i int) (numbered, error) {
		answer, err := m.fetchFrom(ctx, nodes[i], call)
		return numbered{answer, of[i]}, err
	}, func(numbered) {})
	work.Wait()
	if err != nil {
		return nil, err
	}
	m.answered.Store(int64(answer.from))
	return answer.body, answer.err
}

// eachAddress returns a node for each address of the name, or the node itself if it has one address, or is
// reached through a proxy.
func (n managementNode) eachAddress(ctx context.Context, m *Management) []managementNode {
	transport, system := m.client.Transport.(systemTransport)
	u, err := url.Parse(n.base)
	if !system || err != nil || net.ParseIP(u.Hostname()) != nil {
		return []managementNode{n}
	}
	if proxy, err := transport.Proxy(&http.Request{URL: u}); err != nil || proxy != nil {
		return []managementNode{n}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	hosts, err := m.lookup(ctx, u.Hostname())
	if err != nil || len(hosts) < 2 {
		return []managementNode{n}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	all := make([]managementNode, len(hosts))
	for i, host := range hosts {
		all[i] = managementNode{n.base, net.JoinHostPort(host, port)}
	}
	return all
}
