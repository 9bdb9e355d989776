package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system"
)

// servePages serves a console without a server around it, to an operator.
func servePages(t *testing.T, api operation.Via) served {
	t.Helper()
	pages, err := console.New(console.Config{API: api, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		pages.ServeHTTP(w, r.WithContext(access.NewContext(r.Context(), access.Identity{Name: "ada", Role: access.Operator})))
	}))
	t.Cleanup(server.Close)
	return served{url: server.URL}
}

// Pages say that the store is away, and come back by themselves.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Sources{Environ: []string{"WATERSHIP_STORE_URL=http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := system.New(system.Config{Settings: cfg, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	s := servePages(t, httpapi.New(a, nil))
	for path, text := range map[string]string{
		"/failures": "Messages are handled, retried and kept in RabbitMQ meanwhile.", "/failures?view=list": "wait for the store",
		"/replays": "Jobs that run wait for the store",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel() // the client of the store tries again for some seconds
			page := s.get(t, path)
			page.want(t, http.StatusServiceUnavailable, "Wait until the store answers", "Try again", text)
			if refresh := page.values(t, "data-refresh"); !slices.Equal(refresh, []string{"5"}) {
				t.Errorf("it is refreshed each %q seconds", refresh)
			}
		})
	}
}

// A page may take longer than a client may take to send its request: net/http would cancel
// the context of the request then.
func TestPagesMayTakeLongerThanRequests(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 3)
	s := servePages(t, via(func(ctx context.Context, _ *operation.Operation, _, out any) error {
		select {
		case <-time.After(300 * time.Millisecond):
			ended <- nil
		case <-ctx.Done():
			ended <- context.Cause(ctx)
		}
		if job, is := out.(*replays.JobOutput); is {
			job.Body.ID = "x"
		}
		return nil
	}))
	s.get(t, "/failures/discard?q=*").want(t, http.StatusOK, "No unresolved failure matches")
	s.post(t, "/replays/x/cancel", nil)
	for range 3 { // the last is that of the page after the form
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
