package elastic

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/storetest"
	"github.com/watershipmq/watership/schemas"
)

func TestStoreConforms(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return installed(t, Config{}) })
}

// serverURL is the real Elasticsearch.
func serverURL(t *testing.T) string {
	t.Helper()
	server := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if server == "" {
		if os.Getenv("WATERSHIP_TEST_REQUIRED") == "1" {
			t.Fatal("WATERSHIP_TEST_STORE_URL is not set")
		}
		t.Skip("WATERSHIP_TEST_STORE_URL is not set: no Elasticsearch to test against")
	}
	return server
}

// open makes a store with streams of its own name: data streams cannot be
// deleted on the server that tests have. Without URLs it is at the real server.
func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	if cfg.URLs == nil {
		cfg.URLs = []string{serverURL(t)}
	}
	if cfg.Stream == "" {
		cfg.Stream = "test-" + strings.ToLower(rand.Text())
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func installed(t *testing.T, cfg Config) *Store {
	t.Helper()
	s := open(t, cfg)
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// scripted is a server that answers every request by a function.
func scripted(t *testing.T, answer http.HandlerFunc) *Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return open(t, Config{URLs: []string{server.URL}, Stream: "scripted"})
}

// behindProxy is the real server, with a fault that may answer in its place.
func behindProxy(t *testing.T, fault func(w http.ResponseWriter, r *http.Request, real http.Handler)) *Store {
	t.Helper()
	target, err := url.Parse(serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	real := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fault(w, r, real) }))
	t.Cleanup(proxy.Close)
	return open(t, Config{URLs: []string{proxy.URL}})
}

// document has an id and the little that the mapping needs.
func document(id string) schemas.Document {
	return schemas.Document{ID: id, Stream: schemas.Traffic, Source: []byte(`{"@timestamp":"2026-01-01T00:00:00Z"}`)}
}
