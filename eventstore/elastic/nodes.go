package elastic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/watershipmq/watership/eventstore/elastic/internal/bulkbody"
)

const (
	probeAfter   = time.Second     // without an answer to a request, and between two probes
	probeTimeout = 2 * time.Second // for the answer to a probe

	// dialTimeout is for all addresses of a name, each of which has two seconds at least.
	dialTimeout = 5 * time.Second
)

// nodeTransport sends requests to the nodes of a cluster. It ends a request whose node answers nothing any
// more, as one that is paused or cut off from the others, so that the next goes to another node.
// A node that works on a request for long answers probes.
type nodeTransport struct {
	*http.Transport
	pool  *pool
	paths map[string]string // of nodes, by scheme and host
}

// unresponsiveError means that a node did not answer a probe, nor a request if it was sent one.
type unresponsiveError struct {
	node   string
	err    error
	isSent bool
}

func (e *unresponsiveError) Error() string {
	return fmt.Sprintf("%s answers nothing any more: %v", e.node, e.err)
}

func (e *unresponsiveError) Unwrap() error { return e.err }

// RoundTrip implements http.RoundTripper. It reports nodes that fail to the pool: a request that its caller gives up
// is no failure of the node.
func (t nodeTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	node := host(request.URL)
	response, err := t.try(request, node)
	switch {
	case err == nil:
		t.pool.succeeded(node)
	case request.Context().Err() == nil:
		t.pool.failed(node)
	}
	return response, err
}

// try sends a request, unless the node failed before and does not answer a probe.
func (t nodeTransport) try(request *http.Request, node string) (*http.Response, error) {
	if !t.pool.needsProbe(node) {
		return t.send(request)
	}
	if err := t.probe(request.Context(), node, request.Header.Get("Authorization")); err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, &unresponsiveError{node: node, err: err}
	}
	return t.send(request)
}

func (t nodeTransport) send(request *http.Request) (*http.Response, error) {
	ctx, end := context.WithCancelCause(request.Context())
	watching, answered := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		t.watch(watching, request, end)
	}()
	sent := request.WithContext(ctx)
	sent.GetBody = nil // net/http would read a bulk body again that it has read in part
	response, err := t.Transport.RoundTrip(sent)
	answered()
	<-watched
	var unresponsive *unresponsiveError
	if err == nil && ctx.Err() == nil {
		return response, nil // ctx ends with the request, after the body was read
	}
	if errors.As(context.Cause(ctx), &unresponsive) {
		if err == nil {
			response.Body.Close()
		}
		return nil, unresponsive
	}
	if err != nil {
		end(err)
	}
	return response, err
}

// watch ends the request if its node does not answer probes. It returns when ctx ends.
func (t nodeTransport) watch(ctx context.Context, request *http.Request, end context.CancelCauseFunc) {
	node := host(request.URL)
	login := request.Header.Get("Authorization")
	wait := time.NewTimer(probeAfter)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		err := t.probe(ctx, node, login)
		if err != nil && ctx.Err() == nil {
			end(&unresponsiveError{node, err, true})
			return
		}
		wait.Reset(probeAfter)
	}
}

// probe asks a node for the state of its cluster, which it needs a master for. Any answer, except from a
// node without one is a sign of life, also that the login may not ask.
func (t nodeTransport) probe(ctx context.Context, node, login string) error {
	query := url.Values{"master_timeout": {"1s"}, "timeout": {"1s"}, "filter_path": {"status"}}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, node+t.paths[node]+"/_cluster/health?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	if login != "" {
		request.Header.Set("Authorization", login)
	}
	response, err := t.Transport.RoundTrip(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode == http.StatusServiceUnavailable {
		return errors.New("it has no master")
	}
	return nil
}

// notSent reports whether an error says that the node got nothing of a request, so that another may get it.
// The error of a probe that follows a request says nothing about the request.
func notSent(_ *http.Request, err error) bool {
	var unresponsive *unresponsiveError
	var network *net.OpError
	if errors.As(err, &unresponsive) {
		return !unresponsive.isSent
	}
	return errors.As(err, &network) && network.Op == "dial"
}

// unread returns the body again, for a request of which nothing was read for the first node. Without
// it elastictransport copies the body. Only a nodeTransport may get it, which hides it from net/http.
func unread(body *bulkbody.Body) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return body, nil }
}
