package elastic

import (
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"

	"github.com/watershipmq/watership/internal/backoff"
)

// A node that failed is left out for a pause, and for longer with each further failure. Then one request at a
// time tries it, after a probe.
const (
	firstOutage = time.Second
	maxOutage   = 30 * time.Second
)

// pool chooses the nodes of requests in turn, and leaves those out that failed. The pool of elastictransport
// counts a caller that goes away as a failure of the node, and leaves a node out for up to half an hour. It
// implements elastictransport.ConcurrentSafeConnectionPool.
type pool struct {
	nodes []*elastictransport.Connection

	mu      sync.Mutex // guards the fields below
	next    int        // index of a node
	outages map[string]outage
}

// outage is the time for which a node is left out.
type outage struct {
	failures int
	end      time.Time
	isTried  bool // by a request after the end of the pause; end is when another may try
}

func newPool(nodes []*url.URL) *pool {
	p := &pool{outages: map[string]outage{}}
	for _, node := range nodes {
		p.nodes = append(p.nodes, &elastictransport.Connection{URL: node})
	}
	return p
}

// host identifies a node.
func host(node *url.URL) string { return node.Scheme + "://" + node.Host }

// Next returns the next node that is not left out, or else the one that has been for the longest time.
func (p *pool) Next() (*elastictransport.Connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.nodes) == 0 {
		return nil, errors.New("no node is known")
	}
	now, at := time.Now(), p.next
	for i := range p.nodes {
		candidate := (p.next + i) % len(p.nodes)
		end := p.outage(candidate).end
		if !end.After(now) {
			at = candidate
			break
		}
		if end.Before(p.outage(at).end) {
			at = candidate
		}
	}
	p.next = (at + 1) % len(p.nodes)
	if o := p.outage(at); o.failures > 0 {
		o.isTried = !o.end.After(now)
		if o.isTried {
			o.end = now.Add(probeTimeout)
		}
		p.outages[host(p.nodes[at].URL)] = o
	}
	return p.nodes[at], nil
}

func (p *pool) outage(node int) outage { return p.outages[host(p.nodes[node].URL)] }

// needsProbe reports whether a node that failed is tried again while others work.
func (p *pool) needsProbe(node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outages[node].isTried
}

// failed leaves a node out. Several requests that fail at once are one failure.
func (p *pool) failed(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.outages[node]
	if o.end.After(time.Now()) && !o.isTried {
		return
	}
	o.failures++
	o.isTried = false
	o.end = time.Now().Add(backoff.Backoff{Min: firstOutage, Max: maxOutage}.Pause(o.failures))
	p.outages[node] = o
}

// succeeded ends the outage of a node.
func (p *pool) succeeded(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.outages, node)
}

// OnSuccess and OnFailure do nothing, since they are not told why a request failed: nodeTransport is.
func (p *pool) OnSuccess(*elastictransport.Connection) error { return nil }

// OnFailure does nothing.
func (p *pool) OnFailure(*elastictransport.Connection) error { return nil }

// URLs returns all nodes.
func (p *pool) URLs() []*url.URL {
	var all []*url.URL
	for _, node := range p.nodes {
		all = append(all, node.URL)
	}
	return all
}

// ConcurrentSafe says that the methods can be called at once.
func (p *pool) ConcurrentSafe() {}
