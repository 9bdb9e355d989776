package elastic

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// A caller that goes away is no fault of the node.
func TestCancelledRequestsLeaveNoNodeOut(t *testing.T) {
	var hang atomic.Bool
	waiting := make(chan struct{})
	answer := func(w http.ResponseWriter, r *http.Request) {
		if !hang.Load() {
			created(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices the end
		waiting <- struct{}{}
		<-r.Context().Done()
	}
	one, first := testNode(t, answer)
	other, second := testNode(t, answer)
	store := open(t, Config{URLs: []string{one, other}, Product: Elasticsearch})
	for range 3 {
		hang.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-waiting; cancel() }()
		if _, err := store.Count(ctx, eventstore.Selection{}); err == nil {
			t.Fatal("a request that was cancelled has succeeded")
		}
		cancel()
		hang.Store(false)
		first.Store(0)
		second.Store(0)
		for range 10 {
			if _, err := store.Count(t.Context(), eventstore.Selection{}); err != nil {
				t.Fatal(err)
			}
		}
		if first.Load() != 5 || second.Load() != 5 {
			t.Errorf("the nodes got %d and %d requests, want 5 each", first.Load(), second.Load())
		}
	}
}

// A node that failed often comes back within half a minute, and is tried by one request at a time.
func TestANodeComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool([]*url.URL{{Scheme: "http", Host: "a"}, {Scheme: "http", Host: "b"}})
		next := func() string {
			node, err := p.Next()
			if err != nil {
				t.Fatal(err)
			}
			return host(node.URL)
		}
		const a, b = "http://a", "http://b"
		got := func() (nodes [2]int) {
			for range 4 {
				if next() == a {
					nodes[0]++
				} else {
					nodes[1]++
				}
			}
			return nodes
		}
		if nodes := got(); nodes != [2]int{2, 2} {
			t.Errorf("at first the nodes get %d requests", nodes)
		}
		for range 10 {
			for range 3 { // requests that were under way
				p.failed(a)
			}
			if nodes := got(); nodes != [2]int{0, 4} || p.needsProbe(a) {
				t.Errorf("after a failure the nodes get %d requests", nodes)
			}
			time.Sleep(maxOutage)
			if nodes := got(); nodes != [2]int{1, 3} || !p.needsProbe(a) {
				t.Errorf("after the pause the nodes get %d requests", nodes)
			}
		}
		p.succeeded(a)
		if nodes := got(); nodes != [2]int{2, 2} || p.needsProbe(a) {
			t.Errorf("after a success the nodes get %d requests", nodes)
		}
		p.failed(a)
		time.Sleep(time.Millisecond)
		p.failed(b)
		if nodes := got(); nodes[0]+nodes[1] != 4 || p.needsProbe(a) || p.needsProbe(b) {
			t.Errorf("while no node works they get %d requests, and probes", nodes)
		}
		time.Sleep(firstOutage)
		if p.failed(a); p.outages[a].failures != 2 {
			t.Errorf("a node failed %d times, want 2", p.outages[a].failures)
		}
	})
}

// The trials of a node that hangs cost no write: each is probed first.
func TestTrialsOfANodeThatHangs(t *testing.T) {
	var probes atomic.Int64
	dead, requests := testNode(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_cluster/health") {
			probes.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable) // it has no master
			return
		}
		hangs(w, r)
	})
	alive, _ := testNode(t, created)
	store := open(t, Config{URLs: []string{dead, alive}, Product: Elasticsearch})
	failed := 0
	rabbittest.Eventually(t, "the node was tried twice more", func() bool {
		if _, err := store.Create(t.Context(), []schemas.Document{document("a")}); err != nil {
			wantStoreError(t, err, eventstore.Unavailable)
			failed++
		}
		return probes.Load() >= 3
	})
	if failed != 1 || requests.Load() != 1 {
		t.Errorf("%d requests failed, and the node got %d; want 1", failed, requests.Load())
	}
}

// Of a node that accepts connections and reads nothing, one that refuses them and one that works, the last gets
// all requests after the first.
func TestANodeThatReadsNothing(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts connections
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused.Close()
	alive, _ := testNode(t, created)
	store := open(t, Config{URLs: []string{"http://" + hole.Addr().String(), "http://" + refused.Addr().String(), alive}, Product: Elasticsearch})
	failed := 0
	for range 30 {
		if _, err := store.Count(t.Context(), eventstore.Selection{}); err != nil {
			t.Error(err)
		}
		if _, err := store.Create(t.Context(), []schemas.Document{document("a")}); err != nil {
			wantStoreError(t, err, eventstore.Unavailable)
			failed++
		}
	}
	if failed > 1 {
		t.Errorf("%d writes failed, want 1 or none", failed)
	}
}

// untilServed repeats requests that a busy Elasticsearch refuses.
type untilServed struct{ http.RoundTripper }

func (u untilServed) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	for {
		try := r.Clone(r.Context())
		try.Body = io.NopCloser(bytes.NewReader(body))
		response, err := u.RoundTripper.RoundTrip(try)
		if err != nil || response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
			return response, err
		}
		response.Body.Close()
		if err := backoff.Sleep(r.Context(), 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// proxyNode is a node that passes requests to the real Elasticsearch. Address may be empty.
func proxyNode(t *testing.T, address string) (node *httptest.Server, requests *atomic.Int64) {
	t.Helper()
	target, err := url.Parse(serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	real := httputil.NewSingleHostReverseProxy(target)
	real.Transport = untilServed{http.DefaultTransport}
	requests = new(atomic.Int64)
	node = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_cluster/health" { // of a busy server, which may answer too late for a node that lives
			fmt.Fprint(w, `{"status": "green"}`)
			return
		}
		requests.Add(1)
		real.ServeHTTP(w, r)
	}))
	node.Config.ErrorLog = log.New(io.Discard, "", 0)
	if address != "" {
		node.Listener.Close()
		if node.Listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
	}
	node.Start()
	t.Cleanup(node.Close)
	return node, requests
}

// A node that dies under load costs the writes that it worked on, and no read. When it is back it is used.
func TestANodeThatDiesUnderLoad(t *testing.T) {
	dying, first := proxyNode(t, "")
	other, second := proxyNode(t, "")
	store := open(t, Config{URLs: []string{dying.URL, other.URL}, Stream: installed(t, Config{}).stream})
	const workers = 4
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var failed atomic.Int64
	for worker := range workers {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if _, err := store.Count(ctx, eventstore.Selection{}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if _, err := store.Create(ctx, []schemas.Document{document(fmt.Sprintf("%d-%d", worker, n))}); err != nil && ctx.Err() == nil {
					failed.Add(1)
				}
			}
		})
	}
	defer load.Wait()
	defer stop()
	more := func(of *atomic.Int64, n int64) func() bool {
		from := of.Load()
		return func() bool { return of.Load() >= from+n }
	}
	rabbittest.Eventually(t, "both nodes get requests", more(first, 10))
	rabbittest.Eventually(t, "both nodes get requests", more(second, 10))
	dying.Listener.Close()
	dying.CloseClientConnections()
	rabbittest.Eventually(t, "the other node gets all requests", more(second, 50))
	if n := failed.Load(); n > workers {
		t.Errorf("%d writes failed, with %d workers", n, workers)
	}
	_, first = proxyNode(t, dying.Listener.Addr().String())
	before := failed.Load()
	rabbittest.Eventually(t, "the first node is used again", more(first, 10))
	if n := failed.Load() - before; n > 0 {
		t.Errorf("%d writes failed when the node was back", n)
	}
}
