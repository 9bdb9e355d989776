package server

import (
	"net"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/systemtest"
)

// A server that cannot listen ends with the reason, and leaves no connection to the broker open.
func TestAServerThatCannotListenLeavesNothingOpen(t *testing.T) {
	rabbittest.NoLeaks(t)
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	sys, _ := systemtest.Embedded(t, "WATERSHIP_HTTP_LISTEN="+used.Addr().String())
	s, err := New(t.Context(), sys, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), Faces{}); err == nil || !strings.Contains(err.Error(), "http.listen "+used.Addr().String()) {
		t.Errorf("got %v", err)
	}
}
