package embedded

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// dev and serve end when nobody can connect to their broker any more.
func TestEmbeddedBrokerStopsListening(t *testing.T) {
	b := broker.New(broker.Config{})
	t.Cleanup(func() { b.Close() })
	address, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rabbittest.FailListener(t, address)
	e := &Broker{broker: b}
	if err := e.WatchListeners(t.Context()); err == nil || !strings.Contains(err.Error(), "no longer accepts connections") {
		t.Errorf("WatchListeners: %v", err)
	}
}
