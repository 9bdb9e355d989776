package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// connected returns a client of a server that answers other paths than that of its version
// with do.
func connected(t *testing.T, do http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/version" {
			do(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"version":"v1","documents":%d,"settings":{"labels":["tenant"]},"caller":{"role":"operator"}}`, schemas.DocumentVersion)
	}))
	t.Cleanup(server.Close)
	c, err := client.Connect(t.Context(), client.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The parts of a query go to the server as texts, in their languages.
func TestQueries(t *testing.T) {
	t.Parallel()
	c := connected(t, func(http.ResponseWriter, *http.Request) { t.Error("no request was expected") })
	raw := kql.Raw{JSON: `{"match_all":{}}`}
	parse := func(text string) kql.Node {
		node, err := c.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		return node
	}
	for _, test := range []struct {
		node       kql.Node
		query, dsl string
	}{
		{nil, "", ""},
		{parse(""), "", ""},
		{parse("*"), "", ""},
		{parse("queue: a or queue: b"), "watership.queue: a or watership.queue: b", ""},
		{parse("labels.tenant: a"), "labels.tenant: a", ""},
		{kql.And{parse("queue: a or queue: b"), raw}, "watership.queue: a or watership.queue: b", raw.JSON},
		{kql.And{kql.And{parse("*"), raw}, parse("attempt > 2")}, "watership.attempt > 2", raw.JSON},
		{kql.And{kql.And{parse("queue: a or queue: b"), raw}, parse("attempt > 2"), raw}, "(watership.queue: a or watership.queue: b) and watership.attempt > 2", `{"bool":{"filter":[{"match_all":{}},{"match_all":{}}]}}`},
	} {
		if query, dsl := client.Split(test.node); query != test.query || dsl != test.dsl {
			t.Errorf("%v: %q and %q; want %q and %q", test.node, query, dsl, test.query, test.dsl)
		}
	}
	long, _ := client.Split(parse(strings.Repeat("queue: a or ", 200) + "queue: b"))
	for name, act := range map[string]func(context.Context, *client.Client) error{
		"query: ":  call(messages.CountEvents, func(in *messages.CountInput) { in.Query = long }),
		"--dsl: ":  call(messages.CountEvents, func(in *messages.CountInput) { in.DSL = long }),
		"query: 4": call(failures.DiscardFailures, func(in *failures.DiscardInput) { in.Body.Query = long }),
	} {
		var mistake system.InputError
		if err := act(t.Context(), c); !errors.As(err, &mistake) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("a query that is too long: %v", err)
		}
	}
}

func someMessages(n int) iter.Seq2[schemas.Envelope, error] {
	return func(yield func(schemas.Envelope, error) bool) {
		for range n {
			if !yield(schemas.Envelope{Exchange: "shop"}, nil) {
				return
			}
		}
	}
}

// The error of a request that acts says whether it is known what was done.
func TestPublishIsKnown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status          int
		kind, body, has string
		confirmed       int
		known           bool
	}{
		{http.StatusConflict, "application/problem+json", `{"detail":"no route","done":3}`, "no route", 3, true},
		{http.StatusServiceUnavailable, "application/problem+json", `{"detail":"the queue is full","done":2}`, "the queue is full", 2, true},
		{http.StatusBadGateway, "text/html", "<html>", "a proxy answers in its place", 0, false},
		{http.StatusFound, "", "", "it redirects a request that acts", 0, false},
	} {
		c := connected(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", test.kind)
			w.Header().Set("Location", "/api/v1/version")
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		})
		n, err := c.Publish(t.Context(), someMessages(5), 0, func(int) {})
		if err == nil || n != test.confirmed || !strings.Contains(err.Error(), test.has) || strings.Contains(err.Error(), "not known whether 5 messages") == test.known {
			t.Errorf("%d: %d, %v", test.status, n, err)
		}
	}
}

// Each request that acts has a key of its own.
func TestKeys(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	var requests atomic.Int32
	c := connected(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		keys[r.Header.Get("Idempotency-Key")] = true
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"published":500,"matched":1}`)
	})
	for _, act := range []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := c.Publish(ctx, someMessages(1001), 0, func(int) {})
			return err
		},
		func(ctx context.Context) error {
			_, err := failures.DiscardFailures.Call(ctx, c, failures.DiscardInput{})
			return err
		},
		func(ctx context.Context) error {
			_, err := routes.PauseRoute.Call(ctx, c, routes.PauseInput{Queue: "orders"})
			return err
		},
	} {
		if err := act(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if int(requests.Load()) != len(keys) || len(keys) < 5 || keys[""] {
		t.Errorf("%d requests with the keys %v", requests.Load(), keys)
	}
}

// A pause is over when the server has answered, and a page of another server is no answer.
func TestPauseRoute(t *testing.T) {
	t.Parallel()
	kind := "application/json"
	c := connected(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		fmt.Fprint(w, `{"queue":"orders","paused":true}`)
	})
	in := routes.PauseInput{Queue: "orders"}
	if paused, err := routes.PauseRoute.Call(t.Context(), c, in); err != nil || !paused.Body.Paused {
		t.Errorf("%v, %v", paused, err)
	}
	kind = "text/html"
	if _, err := routes.PauseRoute.Call(t.Context(), c, in); err == nil || !strings.Contains(err.Error(), "is not the API of Watership") {
		t.Errorf("a page is an answer: %v", err)
	}
}

// The answer to an operation without a result has no body, and that to another has one.
func TestAnswersWithoutABody(t *testing.T) {
	t.Parallel()
	c := connected(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if _, err := subscriptions.DeleteSubscription.Call(t.Context(), c, subscriptions.DeleteInput{NameInput: subscriptions.NameInput{Name: "billing"}}); err != nil {
		t.Errorf("a deletion: %v", err)
	}
	if _, err := subscriptions.ListSubscriptions.Call(t.Context(), c, struct{}{}); err == nil || !strings.Contains(err.Error(), "is not the API of Watership") {
		t.Errorf("a list without a body: %v", err)
	}
}

// A proxy may repeat the headers of a request: an error has no token.
func TestErrorsHaveNoToken(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"status":400,"detail":"no header may be %s"}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(server.Close)
	_, err := client.Connect(t.Context(), client.Config{URL: server.URL, Token: "wst_secret"})
	if err == nil || strings.Contains(err.Error(), "wst_secret") || !strings.Contains(err.Error(), "Bearer TOKEN") {
		t.Errorf("got %v", err)
	}
}

// A server, or another one at its address, cannot fill the memory of a command.
func TestResponsesAreBounded(t *testing.T) {
	endless := func(w http.ResponseWriter, contentType string) {
		w.Header().Set("Content-Type", contentType)
		spaces := []byte(strings.Repeat(" ", 1<<20))
		for {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { endless(w, "application/json") }))
	t.Cleanup(server.Close)
	if _, err := client.Connect(t.Context(), client.Config{URL: server.URL}); err == nil || !strings.Contains(err.Error(), "it sent more than 256 MiB at once") {
		t.Errorf("got %v", err)
	}
	c := connected(t, func(w http.ResponseWriter, _ *http.Request) { endless(w, "application/x-ndjson") })
	for _, err := range c.Events(t.Context(), eventstore.Selection{Order: eventstore.BySequence}) {
		if err == nil || !strings.Contains(err.Error(), "it sent more than 256 MiB at once") {
			t.Errorf("got %v", err)
		}
	}
}

// A name is one segment of a path, or a parameter, whatever it consists of.
func TestNamesInPaths(t *testing.T) {
	t.Parallel()
	asked := &operation.Mux{}
	var name string
	for _, pattern := range []string{
		"GET /api/v1/messages/{name}", "GET /api/v1/messages/{name}/body", "GET /api/v1/streams/{name}",
		"POST /api/v1/routes/{name}/pause", "POST /api/v1/routes/{name}/add", "GET /api/v1/subscriptions/{name}", "GET /api/v1/subscriptions/{name}/parked",
		"GET /api/v1/failures/groups/{name}", "POST /api/v1/failures/groups/{name}/triage",
		"GET /api/v1/replays/{name}", "POST /api/v1/replays/{name}/cancel", "GET /api/v1/replays/{name}/outcomes",
	} {
		asked.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			name = r.PathValue("name")
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{}`)
		})
	}
	asked.HandleFunc("GET /api/v1/event", func(w http.ResponseWriter, r *http.Request) {
		name = r.FormValue("id")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	})
	c := connected(t, asked.ServeHTTP)
	for what, ask := range map[string]func(ctx context.Context, name string){
		"messages": func(ctx context.Context, name string) {
			_, _ = messages.GetMessages.Call(ctx, c, messages.MessagesInput{ID: name})
		},
		"a body": func(ctx context.Context, name string) {
			_, _ = messages.GetBody.Call(ctx, c, messages.BodyInput{ID: name})
		},
		"a stream": func(ctx context.Context, name string) {
			_, _ = messages.GetStream.Call(ctx, c, messages.StreamInput{ID: name})
		},
		"an event": func(ctx context.Context, name string) {
			_, _ = messages.GetEvent.Call(ctx, c, messages.EventInput{ID: name})
		},
		"a pause": func(ctx context.Context, name string) {
			_, _ = routes.PauseRoute.Call(ctx, c, routes.PauseInput{Queue: name})
		},
		"a route": func(ctx context.Context, name string) {
			_, _ = routes.AddRoute.Call(ctx, c, routes.PolicyInput{Queue: name})
		},
		"a subscription": func(ctx context.Context, name string) {
			_, _ = subscriptions.GetSubscription.Call(ctx, c, subscriptions.NameInput{Name: name})
		},
		"parked messages": func(ctx context.Context, name string) {
			_, _ = subscriptions.ListParked.Call(ctx, c, subscriptions.NameInput{Name: name})
		},
		"a group": func(ctx context.Context, name string) {
			_, _ = failures.GetFailureGroup.Call(ctx, c, failures.GroupInput{Group: name})
		},
		"a decision": func(ctx context.Context, name string) {
			_, _ = failures.TriageFailureGroup.Call(ctx, c, failures.TriageInput{Group: name})
		},
		"a job": func(ctx context.Context, name string) {
			_, _ = replays.GetReplay.Call(ctx, c, replays.JobInput{ID: name})
		},
		"a cancelled job": func(ctx context.Context, name string) {
			_, _ = replays.CancelReplay.Call(ctx, c, replays.CancelInput{ID: name})
		},
		"outcomes": func(ctx context.Context, name string) {
			_, _ = replays.GetOutcomes.Call(ctx, c, replays.JobInput{ID: name})
		},
	} {
		for _, wanted := range []string{".", "..", "...", "a/b", "a/../b", "a%2Fb", "?#", "a b", "ä", "/", "//"} {
			name = ""
			ask(t.Context(), wanted)
			if name != wanted {
				t.Errorf("%s of %q: the server was asked for %q", what, wanted, name)
			}
		}
	}
}
