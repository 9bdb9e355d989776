package cli

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/system"
)

// served is the API of a server on the broker and the store of a test.
type served struct {
	*httptest.Server
	tokens *access.TokenFile
}

// serveAPI serves the API in this process until the test ends.
func serveAPI(t *testing.T, from config.Sources) served {
	t.Helper()
	cfg, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	a, err := system.New(system.Config{Settings: cfg, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	handler := httpapi.New(a, nil)
	tokens := access.OpenTokenFile(filepath.Join(t.TempDir(), "tokens.json"))
	guard, err := access.New(access.Config{Logger: slog.New(slog.DiscardHandler), Recorder: noRecorder{}, Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- handler.Run(ctx) }()
	s := served{httptest.NewServer(guard.Handler(handler)), tokens}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// noRecorder drops audit events.
type noRecorder struct{}

func (noRecorder) Record(context.Context, access.Record) error { return nil }
func (noRecorder) Ready() error                                { return nil }

// environ returns the environment of commands that use the server with a new token.
func (s served) environ(t *testing.T, token access.Token) []string {
	t.Helper()
	secret, err := s.tokens.Create(token)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"WATERSHIP_SERVER=" + s.URL, "WATERSHIP_TOKEN_FILE=" + servertest.WriteFile(t, "token", secret+"\n"), "TZ=UTC"}
}

// newSeededServer is a store of which commands know the server alone.
func newSeededServer(t *testing.T, settings ...string) seeded {
	t.Helper()
	a := newSeededFile(t, settings...)
	s := serveAPI(t, config.Sources{Environ: slices.DeleteFunc(slices.Clone(a.environ), func(v string) bool { return v == "TZ=UTC" })})
	a.environ = s.environ(t, access.Token{Name: "ada", Role: access.Operator, Bodies: true})
	return a
}
