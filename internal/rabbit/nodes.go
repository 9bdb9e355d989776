package rabbit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// nextNodeAfter is how long one node may take before another is tried as well. A node that
	// is paused, or cut off by a firewall, refuses nothing and answers nothing.
	nextNodeAfter = time.Second

	lookupTimeout = 2 * time.Second // for the addresses of a name
)

// node is one address of a broker.
type node struct {
	uri     amqp.URI
	url     string // with the name of this node
	address string // host:port for the network
}

// urls returns the URL of each node. Nodes share everything but host and port.
func (c Config) urls() ([]amqp.URI, []string, error) {
	all := []string{c.URL}
	for _, host := range c.Nodes {
		if err := CheckNode(host); err != nil {
			return nil, nil, err
		}
		other, err := NodeURL(c.URL, host)
		if err != nil {
			return nil, nil, fmt.Errorf("AMQP URL is not valid: %w", err)
		}
		all = append(all, other)
	}
	uris := make([]amqp.URI, len(all))
	for i, each := range all {
		var err error
		if uris[i], err = parseURL(each); err != nil {
			return nil, nil, err
		}
	}
	return uris, all, nil
}

// NodeURL returns the URL of another node of a cluster: with another host, and maybe port. Its error has no
// part of the URL, which may hold a password.
func NodeURL(of, host string) (string, error) {
	u, err := url.Parse(of)
	if err != nil {
		return "", withoutURL(err)
	}
	u.Host = host
	return u.String(), nil
}

// CheckNode returns an error if a text is not the host of a node, with a port or without. The error does
// not repeat the text, which may be a URL with a password.
func CheckNode(host string) error {
	u, err := url.Parse("amqp://" + host + "/")
	if err != nil || u.Hostname() == "" || u.Host != host || strings.Contains(host, ",") {
		return errors.New("a further node of a cluster is not valid: expected host:port, which the login, the virtual host and the scheme of the URL apply to")
	}
	return nil
}

// nodes returns the addresses at which the broker may answer, in random order, so that the connections of
// many processes spread over a cluster. A name counts with each of its addresses.
func (c Config) nodes(ctx context.Context) ([]node, error) {
	uris, urls, err := c.urls()
	if err != nil {
		return nil, err
	}
	lookup := c.Lookup
	if c.Dial != nil { // it looks names up itself
		lookup = nil
	}
	hosts := eachAddress(uris, func(uri amqp.URI) []string { return addresses(ctx, lookup, uri.Host) })
	var all []node
	for i, uri := range uris {
		for _, host := range hosts[i] {
			all = append(all, node{uri, urls[i], net.JoinHostPort(host, fmt.Sprint(uri.Port))})
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}

// eachAddress returns the addresses of each node, which it looks up at once.
func eachAddress[Node, Address any](nodes []Node, of func(Node) []Address) [][]Address {
	all := make([][]Address, len(nodes))
	var lookups sync.WaitGroup
	for i, node := range nodes {
		lookups.Go(func() { all[i] = of(node) })
	}
	lookups.Wait()
	return all
}

// lookup is a function as net.Resolver.LookupHost.
type lookup func(ctx context.Context, host string) ([]string, error)

// addresses returns the addresses of a name, and the name itself if they are not known: the attempt to connect
// reports why. Without a lookup it returns the name.
func addresses(ctx context.Context, by lookup, host string) []string {
	if by == nil || net.ParseIP(host) != nil {
		return []string{host}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	all, err := by(ctx, host)
	if err != nil || len(all) == 0 {
		return []string{host}
	}
	return all
}

// race makes attempts one after the other until one succeeds. The next begins as soon as one has failed, or
// after a pause, while the earlier go on: the first success counts, and ends the others. Their goroutines
// belong to work; discard gets the results of those that succeeded too late.
func race[T any](ctx context.Context, work *sync.WaitGroup, attempts int, pause time.Duration, attempt func(ctx context.Context, i int) (T, error), discard func(T)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	results := make(chan result) // without a buffer: a result without a receiver is discarded
	run := func(i int) {
		value, err := attempt(ctx, i)
		select {
		case results <- result{value, err}:
		case <-ctx.Done():
			if err == nil {
				discard(value)
			}
		}
	}
	var none T
	var failed nodesError
	begin := time.NewTimer(0)
	defer begin.Stop()
	for begun := 0; ; {
		select {
		case <-begin.C:
			i := begun
			work.Go(func() { run(i) })
			if begun++; begun < attempts {
				begin.Reset(pause)
			}
		case r := <-results:
			if r.err == nil {
				return r.value, nil
			}
			if failed = append(failed, r.err); len(failed) == attempts {
				return none, failed
			}
			if begun < attempts {
				begin.Reset(0)
			}
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
}

// nodesError has the errors of the nodes of a cluster.
type nodesError []error

func (e nodesError) Error() string {
	var texts []string
	said := map[string]bool{}
	for _, err := range e {
		if text := err.Error(); text != "" && !said[text] {
			said[text] = true
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

func (e nodesError) Unwrap() []error { return e }
