package elastic

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/schemas"
)

func TestStoreConforms(t *testing.T) {
	t.Parallel() // most of it is waiting
	storetest.Run(t, func(t *testing.T) storetest.Store { return installed(t, Config{Keep: storetest.KeepRules()}) })
}

// serverURL is the URL of the real Elasticsearch.
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

// open makes a store with new streams: the test server cannot delete data streams.
// Without URLs it uses the real server.
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

// scripted is a server that answers every request with a function.
func scripted(t *testing.T, answer http.HandlerFunc) *Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		if r.URL.Path == healthPath {
			fmt.Fprint(w, `{"status":"green"}`)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return open(t, Config{URLs: []string{server.URL}, Stream: "scripted"})
}

// healthPath is the path of probes, which a store sends while an answer is late. Tests of other requests do not see them.
const healthPath = "/_cluster/health"

// throughProxy is the real server behind a proxy, in which fault can answer instead.
func throughProxy(t *testing.T, fault func(w http.ResponseWriter, r *http.Request, real http.Handler)) *Store {
	t.Helper()
	target, err := url.Parse(serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	real := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthPath {
			real.ServeHTTP(w, r)
			return
		}
		fault(w, r, real)
	}))
	t.Cleanup(proxy.Close)
	return open(t, Config{URLs: []string{proxy.URL}})
}

// do sends a request to the real server.
func do(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, serverURL(t)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPut && strings.Contains(path, "_template/") { // of a busy server, whose usual time is 30 s
		query := request.URL.Query()
		query.Set("master_timeout", "2m")
		request.URL.RawQuery = query.Encode()
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func mustDo(t *testing.T, method, path, body string) string {
	t.Helper()
	status, response := do(t, method, path, body)
	if status >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, status, response)
	}
	return response
}

// create fails the test unless every document is created.
func create(t *testing.T, s *Store, docs ...schemas.Document) {
	t.Helper()
	results, err := s.Create(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		if result.Status != eventstore.Created {
			t.Fatalf("document %d of %d: %+v", i+1, len(docs), result)
		}
	}
}

func rollOver(t *testing.T, s *Store, stream schemas.Stream) {
	t.Helper()
	mustDo(t, "POST", "/"+s.dataStream(stream)+"/_rollover?master_timeout=2m", "")
}

// event is number n.
func event(n int) schemas.Event {
	e := schemas.Event{Action: schemas.Published, Sequence: int64(n), Source: "test", BodySize: 5}
	e.EventID = fmt.Sprintf("event-%06d", n)
	e.Time = time.Date(2026, 5, 4, 0, 0, n, 0, time.UTC)
	e.Envelope.Body = []byte("hello")
	return e
}

func eventDocuments(from, to int) []schemas.Document {
	var docs []schemas.Document
	for n := from; n <= to; n++ {
		docs = append(docs, schemas.DocumentFormat{}.Document(event(n)))
	}
	return docs
}

// document has an id and the required fields only.
func document(id string) schemas.Document {
	return schemas.Document{ID: id, Stream: schemas.Traffic, Source: []byte(`{"@timestamp":"2026-01-01T00:00:00Z"}`)}
}
