// Package systemtest gives tests a System.
package systemtest

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
)

// New returns a System with settings as environment variables have them. It ends with the test.
func New(t testing.TB, environ ...string) *system.System {
	t.Helper()
	settings, err := config.Load(config.Sources{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	s, err := system.New(system.Config{Settings: settings, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Embedded is New with an embedded broker, and with a store in a file whose tables exist.
func Embedded(t testing.TB, environ ...string) (*system.System, rabbittest.Broker) {
	t.Helper()
	broker := rabbittest.Embedded(t)
	s := New(t, append([]string{
		"WATERSHIP_AMQP_URL=" + broker.URL, "WATERSHIP_STORE_URL=sqlite:" + filepath.Join(t.TempDir(), "store.db"),
	}, environ...)...)
	events, err := s.Store(t.Context())
	if err == nil {
		err = events.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, broker
}
