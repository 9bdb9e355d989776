package app

import (
	"path/filepath"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// A second caller gets what the first has opened, and Close closes it.
func TestAppOpensOnce(t *testing.T) {
	a := newTestApp(t, "WATERSHIP_AMQP_URL="+rabbittest.Embedded(t).URL, "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(t.TempDir(), "store.db"))
	ctx := t.Context()
	conn, err := a.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := a.Publisher(ctx)
	if err != nil {
		t.Fatal(err)
	}
	events, err := a.Store(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := events.Install(ctx); err != nil {
		t.Fatal(err)
	}
	if again, err := a.Connection(); err != nil || again != conn {
		t.Errorf("a second connection: %v", err)
	}
	if again, err := a.Publisher(ctx); err != nil || again != publisher {
		t.Errorf("a second publisher: %v", err)
	}
	if again, err := a.Store(ctx); err != nil || again != events {
		t.Errorf("a second store: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if conn.Err() == nil {
		t.Error("the connection is open after Close")
	}
	if events.Check(ctx) == nil {
		t.Error("the store is open after Close")
	}
}

// A failed Dial opens nothing: the next one connects again.
func TestDialAfterAFailure(t *testing.T) {
	a := newTestApp(t, "WATERSHIP_AMQP_URL=amqp://guest:guest@127.0.0.1:1/")
	for range 2 {
		if _, err := a.Dial(t.Context()); err == nil {
			t.Fatal("connected to nothing")
		}
	}
	if len(a.closers) > 0 || a.conn != nil {
		t.Error("a failed connection stays open")
	}
}
