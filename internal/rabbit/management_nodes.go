package rabbit

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// nextManagementAfter is how long a node may take to answer a question before another is asked as well. A node
// without a majority accepts requests and does not answer. Requests of callers end after three seconds or more.
const nextManagementAfter = time.Second

// managementNode is one address of the management API.
type managementNode struct {
	base    string // without user and trailing slash
	address string // ip:port in place of the host of base; "": the client looks it up
}

// managementCall is a request that any node can answer.
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

// fetchFromAny returns the answer of the first node that answers. It looks the others up once the first has failed
// or is late. A request that fails at all of them, or whose time is over before, leaves another node to be the
// first that the next request goes to.
func (m *Management) fetchFromAny(ctx context.Context, call managementCall) ([]byte, error) {
	first := m.first.Load()
	attempt, pause := fetch(m.fetchFrom), nextManagementAfter
	if call.method != http.MethodGet {
		attempt, pause = changeOnce(m.fetchFrom), math.MaxInt64
	}
	type answered struct {
		managementAnswer
		by managementNode
	}
	ask := func(ctx context.Context, node managementNode) (answered, error) {
		answer, err := attempt(ctx, node, call)
		return answered{answer, node}, err
	}
	discard := func(answered) {}
	var asked atomic.Pointer[managementNode]
	var work sync.WaitGroup
	answer, err := race(ctx, &work, 2, pause, func(ctx context.Context, i int) (answered, error) {
		if i == 0 {
			node := first.addressed(ctx, m)
			asked.Store(&node)
			return ask(ctx, node)
		}
		others := otherNodes(ctx, m, asked.Load())
		if len(others) == 0 {
			return answered{}, nodesError{}
		}
		return race(ctx, &work, len(others), pause, func(ctx context.Context, i int) (answered, error) { return ask(ctx, others[i]) }, discard)
	}, discard)
	work.Wait()
	switch {
	case err != nil:
		m.first.CompareAndSwap(first, first.next(m))
		return nil, err
	case errors.Is(answer.err, ErrNoAnswer): // to a change
		m.first.CompareAndSwap(first, answer.by.next(m))
	default:
		m.first.Store(&answer.by)
	}
	return answer.body, answer.err
}

// fetch sends a call to a node. It returns an error if another node can be asked.
type fetch func(ctx context.Context, node managementNode, call managementCall) (managementAnswer, error)

// changeOnce returns a fetch for the attempts at one change. A node whose answer is missing may have made the
// change: no other is asked. One that failed may have made it as well: an object to delete may be gone.
func changeOnce(send fetch) fetch {
	failed := false // of the attempts, which follow each other
	return func(ctx context.Context, node managementNode, call managementCall) (managementAnswer, error) {
		answer, err := send(ctx, node, call)
		var network *net.OpError
		switch {
		case answer.err != nil && err != nil:
			failed = true
		case err != nil && !(errors.As(err, &network) && network.Op == "dial"):
			return managementAnswer{err: err}, nil
		case failed && call.method == http.MethodDelete && errors.Is(answer.err, ErrNotFound):
			answer.err = nil
		}
		return answer, err
	}
}

// next returns the node after one. Of a name with several addresses it is any.
func (n managementNode) next(m *Management) *managementNode {
	at := slices.IndexFunc(m.nodes, func(other managementNode) bool { return other.base == n.base })
	return &m.nodes[(at+1)%len(m.nodes)]
}

// addressed returns a node with the address that its name had, or any other if it has that no more.
func (n managementNode) addressed(ctx context.Context, m *Management) managementNode {
	all := n.eachAddress(ctx, m)
	if slices.Contains(all, n) {
		return n
	}
	return all[rand.IntN(len(all))]
}

// otherNodes returns the addresses of all nodes, from the one after a node on that is asked already. Nil: none is.
func otherNodes(ctx context.Context, m *Management, asked *managementNode) []managementNode {
	all := slices.Concat(eachAddress(m.nodes, func(n managementNode) []managementNode { return n.eachAddress(ctx, m) })...)
	at := -1
	if asked != nil {
		at = slices.Index(all, *asked)
	}
	if at < 0 {
		return all
	}
	return append(all[at+1:len(all):len(all)], all[:at]...)
}

// eachAddress returns a node for each address of the name, or the node itself if it has one address, or is
// reached through a proxy.
func (n managementNode) eachAddress(ctx context.Context, m *Management) []managementNode {
	name := managementNode{base: n.base}
	transport, system := m.client.Transport.(systemTransport)
	u, err := url.Parse(n.base)
	if !system || err != nil {
		return []managementNode{name}
	}
	if proxy, err := transport.Proxy(&http.Request{URL: u}); err != nil || proxy != nil {
		return []managementNode{name}
	}
	hosts := addresses(ctx, m.lookup, u.Hostname())
	if len(hosts) < 2 {
		return []managementNode{name}
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
