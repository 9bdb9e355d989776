package httpapi_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// testStore is a store that a test fills.
type testStore interface {
	system.EventStore
	Close() error
}

// rig is an API with a store of its own, and a client with a token.
type rig struct {
	testStore
	source string
	url    string
	tokens *access.TokenFile
	secret string // of the client's token

	recorder *recorder
}

// as returns the rig with a client that has another token.
func (r rig) as(t *testing.T, token access.Token) rig {
	t.Helper()
	secret, err := r.tokens.Create(token)
	if err != nil {
		t.Fatal(err)
	}
	r.secret = secret
	return r
}

// inEachStore runs a test on the embedded store and on Elasticsearch.
func inEachStore(t *testing.T, test func(t *testing.T, r rig), settings ...string) {
	t.Parallel() // most of it is waiting
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, newRig(t, "sqlite:"+filepath.Join(t.TempDir(), "store.db"), settings...))
	})
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		url := os.Getenv("WATERSHIP_TEST_STORE_URL")
		if url == "" {
			if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
				t.Fatal("WATERSHIP_TEST_STORE_URL is not set")
			}
			t.Skip("WATERSHIP_TEST_STORE_URL is not set")
		}
		test(t, newRig(t, url, settings...))
	})
}

func newRig(t *testing.T, storeURL string, settings ...string) rig {
	t.Helper()
	stream := "test-" + strings.ToLower(rand.Text()[:12])
	store := openStore(t, storeURL, stream)
	if err := store.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	environ := append([]string{"WATERSHIP_STORE_URL=" + storeURL, "WATERSHIP_STORE_STREAM=" + stream}, settings...)
	cfg, err := config.Load(config.Sources{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	a, err := system.New(system.Config{Settings: cfg, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := rig{testStore: store, recorder: &recorder{}, source: stream, tokens: access.OpenTokenFile(filepath.Join(t.TempDir(), "tokens.json"))}
	r = r.as(t, access.Token{Name: "ada", Role: access.Admin, Bodies: true})
	handler := httpapi.New(a, nil)
	guard, err := access.New(access.Config{Logger: slog.New(slog.DiscardHandler), Recorder: r.recorder, Tokens: r.tokens, Queries: handler.Queries()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(guard.Handler(handler))
	r.url = server.URL + httpapi.Prefix
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- handler.Run(ctx) }()
	t.Cleanup(func() {
		server.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	r.awaitShards(t)
	return r
}

// awaitShards waits until the store can be searched: a busy Elasticsearch answers 503 while the
// shards of a new index start.
func (r rig) awaitShards(t *testing.T) {
	t.Helper()
	eventually(t, "the store can be searched", func() bool {
		return r.do(t, http.MethodGet, "/events?limit=1", "").StatusCode != http.StatusServiceUnavailable
	})
}

func openStore(t *testing.T, url, stream string) testStore {
	t.Helper()
	var store testStore
	var err error
	if path, isFile := strings.CutPrefix(url, "sqlite:"); isFile {
		store, err = sqlite.Open(t.Context(), sqlite.Config{Path: path})
	} else {
		store, err = elastic.Open(elastic.Config{URLs: []string{url}, Stream: stream})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// recorder keeps audit events.
type recorder struct {
	mu      sync.Mutex // of records
	records []access.Record
}

func (r *recorder) Record(_ context.Context, made access.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, made)
	return nil
}

func (*recorder) Ready() error { return nil }

// take returns the objects of the events of an action, and drops all events.
func (r *recorder) take(action string) (objects []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, made := range r.records {
		if made.Action.Name == action {
			objects = append(objects, made.Action.Object)
		}
	}
	r.records = nil
	return objects
}

// happened is the time before the first event of every test.
var happened = time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)

// event is the nth, a second after the one before.
func (r rig) event(n int, action schemas.Action, change ...func(*schemas.Event)) schemas.Event {
	e := schemas.Event{
		Action: action, TimeSource: wire.TimeOfEvent, Sequence: int64(n), Ingested: happened, Source: r.source, VHost: "/",
		Envelope: schemas.Envelope{
			Exchange: "shop", RoutingKey: "order.created", Headers: amqp.Table{"tenant": "acme", "n": int64(n)},
			Properties: schemas.Properties{MessageID: fmt.Sprint("m-", n), ContentType: "application/json"},
			Body:       fmt.Appendf(nil, `{"order":%d}`, n),
		},
	}
	e.EventID = fmt.Sprintf("%s:%d", r.source, n)
	e.Time = happened.Add(time.Duration(n) * time.Second)
	for _, f := range change {
		f(&e)
	}
	e.BodySize = len(e.Envelope.Body)
	if e.Fingerprint == "" {
		e.Fingerprint = e.Envelope.Fingerprint()
	}
	return e
}

// keep stores events and makes them visible.
func (r rig) keep(t *testing.T, events ...schemas.Event) {
	t.Helper()
	docs := make([]schemas.Document, len(events))
	for i, event := range events {
		docs[i] = schemas.DocumentFormat{}.Document(event)
	}
	results, err := r.Create(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		if result.Status != eventstore.Created {
			t.Fatalf("event %s: %+v", docs[i].ID, result)
		}
	}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// response is an answer of the API.
type response struct {
	*http.Response
	body []byte
}

// json is the body of a response as the value of its JSON.
func (r response) json(t *testing.T) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(r.body, &value); err != nil {
		t.Fatalf("%s: %v: %s", r.Request.URL, err, r.body)
	}
	return value
}

// do sends a request with a body of JSON, unless that is empty, and headers as pairs.
func (r rig) do(t *testing.T, method, path, body string, headers ...string) response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	request.Header.Set("Authorization", "Bearer "+r.secret)
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{got, text}
}

// get reads a path that has to exist.
func (r rig) get(t *testing.T, path string) map[string]any {
	t.Helper()
	got := r.do(t, http.MethodGet, path, "")
	if got.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %s", path, got.Status, got.body)
	}
	return got.json(t)
}

// wantProblem checks the problem of a response.
func (r response) wantProblem(t *testing.T, status int, detail string) map[string]any {
	t.Helper()
	problem := r.json(t)
	text, _ := problem["detail"].(string)
	if r.StatusCode != status || r.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(text, detail) {
		t.Errorf("%s %s: %s %s %s, want %d %q", r.Request.Method, r.Request.URL, r.Status, r.Header.Get("Content-Type"), r.body, status, detail)
	}
	if name, _ := problem["code"].(string); code.Code(name).Status() != status || !slices.Contains(code.All(), code.Code(name)) {
		t.Errorf("%s %s: the code %q has another status: %s", r.Request.Method, r.Request.URL, name, r.body)
	}
	if refused := status == http.StatusUnauthorized || status == http.StatusForbidden; problem["type"] != "about:blank" || refused && problem["remedy"] == nil {
		t.Errorf("%s %s does not say what to do: %s", r.Request.Method, r.Request.URL, r.body)
	}
	return problem
}

// wantCode checks the problem of a response, which has a code.
func (r response) wantCode(t *testing.T, want code.Code, detail string) {
	t.Helper()
	if got := r.wantProblem(t, want.Status(), detail)["code"]; got != string(want) {
		t.Errorf("%s %s: the code %v, want %s", r.Request.Method, r.Request.URL, got, want)
	}
}
