package elastic

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// testNode is a node of Elasticsearch that stores every document. It counts requests but probes.
func testNode(t *testing.T, answer http.HandlerFunc) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/_cluster/health") {
			requests.Add(1)
		}
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func created(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/_bulk") {
		fmt.Fprint(w, `{"items":[{"create":{"_id":"a","status":201}}]}`)
		return
	}
	fmt.Fprint(w, `{"count":7,"_shards":{"total":1,"successful":1}}`)
}

// hangs answers nothing, as a node does that is paused. It reads the body, so that the server notices the end.
func hangs(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// A node that is away costs no request: what it did not get goes to another.
func TestNodesThatRefuse(t *testing.T) {
	const refuses = "http://127.0.0.1:1" // nothing listens there
	alive, _ := testNode(t, created)
	for range 5 { // in random order
		store := open(t, Config{URLs: []string{refuses, alive}, Product: Elasticsearch})
		for range 2 {
			results, err := store.Create(t.Context(), []schemas.Document{document("a")})
			if err != nil || len(results) != 1 || results[0].Status != eventstore.Created {
				t.Fatal(results, err)
			}
		}
	}
}

// A node that accepts requests and answers none, or has lost its master, costs one failed bulk request, which
// the indexer repeats, and no failed read.
func TestNodesThatHang(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"paused": hangs,
		"no master": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/_cluster/health") {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			hangs(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dead, requests := testNode(t, answer)
			alive, _ := testNode(t, created)
			store := open(t, Config{URLs: []string{dead, alive}, Product: Elasticsearch}) // so that the bulk is the first request
			failed := 0
			for range 4 {
				if _, err := store.Create(t.Context(), []schemas.Document{document("a")}); err != nil {
					wantStoreError(t, err, eventstore.Unavailable)
					failed++
				}
			}
			if failed != 1 || requests.Load() != 1 {
				t.Errorf("%d requests failed, and the node got %d; want 1", failed, requests.Load())
			}
			store = open(t, Config{URLs: []string{dead, alive}, Product: Elasticsearch}) // which knows of no node that hangs
			for range 2 {
				if _, err := store.Count(t.Context(), eventstore.Selection{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A node that works for long is not given up: it answers probes.
func TestANodeThatWorksForLong(t *testing.T) {
	probed := make(chan struct{}, 10)
	slow := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_cluster/health") {
			probed <- struct{}{}
			w.WriteHeader(http.StatusForbidden)
			return
		}
		<-probed
		<-probed
		created(w, r)
	}
	one, first := testNode(t, slow)
	other, second := testNode(t, slow)
	store := open(t, Config{URLs: []string{one, other}, Product: Elasticsearch})
	results, err := store.Create(t.Context(), []schemas.Document{document("a")})
	if err != nil || results[0].Status != eventstore.Created || first.Load()+second.Load() != 1 {
		t.Error(results, err, first, second)
	}
}

// A node that stops works on a request, and refuses the connection of a probe: no other node gets the request.
func TestANodeThatRefusesProbes(t *testing.T) {
	var listeners sync.Map // by host
	var saves atomic.Int64
	answer := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		saves.Add(1)
		listener, _ := listeners.Load(r.Host)
		listener.(net.Listener).Close()
		<-r.Context().Done()
	}
	var urls []string
	for range 2 {
		server := httptest.NewServer(http.HandlerFunc(answer))
		t.Cleanup(server.Close)
		listeners.Store(server.Listener.Addr().String(), server.Listener)
		urls = append(urls, server.URL)
	}
	_, err := open(t, Config{URLs: urls, Product: Elasticsearch}).SaveRecord(t.Context(), "lease", "a", "1.1", []byte(`{}`))
	wantStoreError(t, err, eventstore.Unavailable)
	if saves.Load() != 1 {
		t.Errorf("%d nodes got the record, want 1", saves.Load())
	}
}
