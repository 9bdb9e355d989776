package clustertest

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

// call is a request of serve to the service.
type call struct {
	path, id string
	attempt  int
	status   int
	position string // of subscriptions
	from     node
	begun    time.Time
	ended    time.Time
}

// final is true if the call decided the outcome of the message.
func (c call) final() bool {
	return c.status == http.StatusOK || c.status == http.StatusUnprocessableEntity
}

// service is what the routes and the subscription call.
type service struct {
	mu    sync.Mutex // guards calls
	calls []call
}

// serveHandlers starts the service for the rest of the test.
func serveHandlers(t *testing.T) *service {
	t.Helper()
	s := &service{}
	listener, err := net.Listen("tcp", "bridge:8080")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return s
}

// ServeHTTP handles a message as its kind says, which takes as many milliseconds as its id decides.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := call{path: strings.Trim(r.URL.Path, "/"), id: r.Header.Get("Watership-Message-Id"), position: r.Header.Get("Watership-Subscription-Position"), begun: time.Now(), status: http.StatusOK}
	c.attempt, _ = strconv.Atoi(r.Header.Get("Watership-Attempt"))
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	c.from, _ = at(host)
	_, _ = io.Copy(io.Discard, r.Body)
	if c.path == "orders" || c.path == "ledger" {
		_ = backoff.Sleep(r.Context(), time.Duration(len(c.id)*7%20)*time.Millisecond)
		switch k := kind(r.Header.Get("Watership-Header-Kind")); {
		case k == again && c.attempt == 1:
			c.status = http.StatusInternalServerError
		case k == poison:
			c.status = http.StatusUnprocessableEntity
		}
	}
	c.ended = time.Now()
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	w.WriteHeader(c.status)
}

// of returns the calls for messages of a run.
func (s *service) of(run string) (all []call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if strings.HasPrefix(c.id, run+"-") {
			all = append(all, c)
		}
	}
	return all
}

// latest returns the process that made the latest call of a path.
func (s *service) latest(path string) node {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.calls) - 1; i >= 0; i-- {
		if s.calls[i].path == path && s.calls[i].from != "" {
			return s.calls[i].from
		}
	}
	return ""
}

// finished is true if all messages have a call that decided their outcome.
func (s *service) finished(run string, all []message) bool {
	decided := map[string]bool{}
	for _, c := range s.of(run) {
		if c.path != "events" && c.final() {
			decided[c.id] = true
		}
	}
	for _, m := range all {
		if !m.confirmed.IsZero() && !decided[m.id] {
			return false
		}
	}
	return true
}

// waitFor asks until there is no error, for a time.
func waitFor(ctx context.Context, most time.Duration, question func(context.Context) error) error {
	end := time.Now().Add(most)
	for {
		err := question(ctx)
		if err == nil || time.Now().After(end) {
			return err
		}
		if err := backoff.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}
