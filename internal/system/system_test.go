package system_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
)

// A second caller gets what the first has opened, and Close closes it.
func TestSystemOpensOnce(t *testing.T) {
	a := systemtest.New(t, "WATERSHIP_AMQP_URL="+rabbittest.Embedded(t).URL, "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(t.TempDir(), "store.db"))
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

// A connection that failed goes on trying, so that a later Dial succeeds.
func TestDialAfterAFailure(t *testing.T) {
	proxy := rabbittest.Embedded(t).Proxy(t)
	a := systemtest.New(t, "WATERSHIP_AMQP_URL="+proxy.URL)
	proxy.Cut()
	_, err := a.Dial(t.Context())
	var broker *system.BrokerError
	if !errors.As(err, &broker) {
		t.Fatalf("connected to nothing: %v", err)
	}
	proxy.Mend()
	for _, err = a.Dial(t.Context()); err != nil; _, err = a.Dial(t.Context()) {
		time.Sleep(10 * time.Millisecond)
	}
}

// A broker that accepts connections and does not answer holds up nobody longer than they
// want to wait, and no reader of the store.
func TestDialsWaitOnTheirOwn(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	a := systemtest.New(t, "WATERSHIP_AMQP_URL=amqp://guest:guest@"+listener.Addr().String()+"/", "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(t.TempDir(), "store.db"))
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() {
			if _, err := a.Dial(ctx); err == nil {
				t.Error("connected to nothing")
			}
		})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	began := time.Now()
	if _, err := a.Dial(ended); err == nil {
		t.Error("connected to nothing")
	}
	if _, err := a.Store(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= system.RequestTimeout {
		t.Errorf("a caller who does not wait waited for %s", took)
	}
	cancel()
	waiting.Wait()
}
