package rabbit

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

func management(t *testing.T, url string) *Management {
	t.Helper()
	m, err := NewManagement(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestManagement(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		if b.ManagementURL == "" {
			t.Skip("no management API")
		}
		m := management(t, b.ManagementURL)
		overview, err := m.Overview(t.Context())
		if err != nil || overview.ClusterName == "" || overview.Version != b.Version {
			t.Errorf("overview: %+v, %v", overview, err)
		}
		login, err := m.WhoAmI(t.Context())
		if err != nil || login.Name != "guest" || len(login.Tags) == 0 {
			t.Errorf("whoami: %+v, %v", login, err)
		}
		queue := b.Queue(t, amqp.Table{"x-max-length": 7, "x-queue-type": "quorum"})
		exchange := queue + "/x y" // such names are legal
		b.DeleteExchange(t, exchange)
		ch := b.Channel(t)
		if err := ch.ExchangeDeclare(exchange, "headers", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind(queue, "key", exchange, false, amqp.Table{"x-match": "all"}); err != nil {
			t.Fatal(err)
		}
		q, err := m.Queue(t.Context(), "/", queue)
		if err != nil || q.Type != "quorum" || q.Arguments["x-max-length"] != 7.0 || !q.Durable {
			t.Errorf("queue: %+v, %v", q, err)
		}
		x, err := m.Exchange(t.Context(), "/", exchange)
		if err != nil || x.Type != "headers" {
			t.Errorf("exchange: %+v, %v", x, err)
		}
		bindings, err := m.Bindings(t.Context(), "/", exchange)
		if err != nil || len(bindings) != 1 || bindings[0].Destination != queue || bindings[0].DestinationType != "queue" ||
			bindings[0].RoutingKey != "key" || bindings[0].Arguments["x-match"] != "all" {
			t.Errorf("bindings: %+v, %v", bindings, err)
		}
		if bindings, err := m.Bindings(t.Context(), "/", "test.missing"); err != nil || len(bindings) > 0 {
			t.Errorf("bindings of a missing exchange: %+v, %v", bindings, err)
		}
		if _, err := m.Queue(t.Context(), "/", "test.missing"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a missing queue: %v", err)
		}
		if _, err := m.Queue(t.Context(), "/", ".."); err == nil || !strings.Contains(err.Error(), `cannot name ".."`) { // RabbitMQ resolves it
			t.Errorf("a queue of dots: %v", err)
		}
		if queues, err := m.Queues(t.Context(), "/"); err != nil || len(queues) == 0 {
			t.Errorf("queues: %v", err)
		}
		_, err = management(t, strings.Replace(b.ManagementURL, "guest:guest", "guest:secret", 1)).WhoAmI(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "401") {
			t.Errorf("with a wrong password: %v", err)
		}
	})
}

func TestManagementFailures(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/overview":
			w.WriteHeader(http.StatusBadGateway)
		default:
			_, _ = w.Write([]byte(strings.Repeat(" ", 100)))
		}
	}))
	m := management(t, strings.Replace(server.URL, "http://", "http://user:secret@", 1))
	m.maxBytes = 50
	if _, err := m.Overview(t.Context()); err == nil || !strings.Contains(err.Error(), "502") {
		t.Errorf("got %v", err)
	}
	if _, err := m.WhoAmI(t.Context()); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
	server.Close()
	if _, err := m.WhoAmI(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	for _, url := range []string{"amqp://user:secret@host", "http://", "http://user:sec ret@host", "http://user:secret@host:port"} {
		if _, err := NewManagement(url, nil); err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// TestManagementFollowsNoRedirect checks that another port of the same host, which
// is another server, does not receive the password.
func TestManagementFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s with %q", r.URL, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	_, err := management(t, strings.Replace(server.URL, "http://", "http://user:secret@", 1)).WhoAmI(t.Context())
	if err == nil || !strings.Contains(err.Error(), elsewhere.URL) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// FuzzManagementAnswers checks that any response yields a result or an error that
// names the server, is bounded in length and does not contain the password.
func FuzzManagementAnswers(f *testing.F) {
	for _, answer := range []string{
		"", "null", "[]", "{}", `""`, `{"tags":"administrator,monitoring"}`, `{"tags":["administrator"],"name":1}`,
		`{"effective_policy_definition":[],"operator_policy":null,"message_stats":{"publish":1.5}}`,
		`[{"type":"topic","destination_type":"queue","routing_key":"#.*.","arguments":{"x-match":"any","a":null}}]`,
		`[{"name":"q","messages_dlx":-1}]`, `{"type":"headers","arguments":[]}`,
	} {
		f.Add(answer, 200)
	}
	f.Add(strings.Repeat("x", 1000), 500)
	f.Add(strings.Repeat("x", 1000), 301)
	f.Add(`{"messages":`+strings.Repeat("9", 1000)+`}`, 200)
	f.Fuzz(func(t *testing.T, answer string, status int) {
		answering := roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(answer)), Header: http.Header{"Location": {"/" + answer}},
			}, nil
		})
		m, err := NewManagement("http://user:secret@broker", &http.Client{Transport: answering})
		if err != nil {
			t.Fatal(err)
		}
		for _, ask := range []func() error{
			func() error { _, err := m.Overview(t.Context()); return err },
			func() error { _, err := m.WhoAmI(t.Context()); return err },
			func() error { _, err := m.Queue(t.Context(), "/", "q"); return err },
			func() error { _, err := m.Queues(t.Context(), "/"); return err },
			func() error { _, err := m.Exchange(t.Context(), "/", "x"); return err },
			func() error { _, err := m.Exchanges(t.Context(), "/"); return err },
			func() error { _, err := m.Policies(t.Context(), "/"); return err },
			func() error { _, err := m.DeadLettering(t.Context(), "/"); return err },
			func() error { _, err := m.Bindings(t.Context(), "/", "x"); return err },
		} {
			err := ask()
			if err == nil {
				continue
			}
			if text := err.Error(); !strings.Contains(text, "management API at http://broker: ") || len(text) > 1000 {
				t.Errorf("does not say who answered, or too much: %v", err)
			}
			if strings.Contains(err.Error(), "secret") && !strings.Contains(answer, "secret") {
				t.Errorf("shows the password: %v", err)
			}
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
