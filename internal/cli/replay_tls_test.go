package cli

import (
	"fmt"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// TestReplayWithTLS: the connection of a job takes its authority and certificate
// from the configuration, as the others do.
func TestReplayWithTLS(t *testing.T) {
	secure := rabbittest.TLS(t)
	a := play(t, servertest.Install(t, secure.Broker, servertest.Nobody))
	a.Rewrite(t, fmt.Sprintf("{url: %q, management", a.Broker.URL),
		fmt.Sprintf("{tls: {ca: %q, cert: %q, key: %q}, url: %q, management", secure.CA, secure.ClientCert, secure.ClientKey, secure.URL("", "", "")))
	a.keep(a.event(schemas.Poisoned, 1))
	servertest.WantRun(t, a.Run(t, "replay", "*", "--to-failed-queue", "--yes"), 0, "sent 1 of 1")
	a.Broker.Take(t, a.Queue, 1)
}
