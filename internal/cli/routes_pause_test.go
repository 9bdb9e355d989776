package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// All routes are paused at once. The drain waits for the message that a handler has.
func TestAllRoutesPaused(t *testing.T) {
	t.Parallel() // most of it is waiting
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	slow := servertest.ServeHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	t.Cleanup(release)
	i := servertest.InstallEmbedded(t, slow)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	i.Environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	w := withServe{i, nil, tokens}
	operator := w.token(t, "ann", access.Operator, true)
	i.Serve(t)
	servertest.WantRun(t, i.Run(t, "routes", "pause", "--all", i.Queue, "--reason", "x"), exitUsage, "cannot be combined")
	servertest.WantRun(t, i.Run(t, "routes", "pause", "--reason", "x"), exitUsage, "or --all")
	servertest.WantRun(t, i.Run(t, "routes", "pause", "--all", "--timeout", "1s", "--reason", "x"), exitUsage, "--timeout is for --drain")
	i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-1"})
	i.Eventually(t, "action: published", 1)
	pause := []string{"routes", "pause", "--all", "--drain", "--reason", "RabbitMQ is upgraded"}
	servertest.Until(t, "the message is in flight", func() bool {
		r := i.Run(t, append(pause, "--timeout", "3s")...)
		servertest.WantRun(t, r, exitFailed, "all routes are paused", "not drained within 3s: ", "all routes are still paused")
		return strings.Contains(r.Err, "1 message of queue "+i.Queue+" in flight")
	})
	release()
	servertest.WantRun(t, w.through(t, operator, pause...), 0, "all routes are paused\nno message is in flight\n")
	i.Eventually(t, `action: paused and error.type: operator and not watership.queue: * and error.message: "RabbitMQ is upgraded (ann)"`, 1)
	servertest.WantRun(t, i.Run(t, "routes"), 0, i.Queue, "paused", "RabbitMQ is upgraded (ann)")
	servertest.WantRun(t, i.Run(t, "routes", "resume", i.Queue), exitUsage, "all routes are paused, the one of queue "+i.Queue+" among them: resume all")
	servertest.WantRun(t, i.Run(t, "routes", "pause", i.Queue, "--reason", "night"), 0, "is paused")
	servertest.WantRun(t, w.through(t, operator, "routes", "resume", i.Queue), 0, "the route of queue "+i.Queue+" is still paused, with all routes: resume all\n")
	servertest.WantRun(t, w.through(t, operator, "routes", "resume", "--all"), 0, "all routes are no longer paused by hand")
	servertest.WantRun(t, i.Run(t, "routes", "resume", "--all"), 0, "all routes are not paused by hand: there is nothing to do\n")
	servertest.WantRun(t, i.Run(t, "routes", "resume", i.Queue), 0, "the route of queue "+i.Queue+" is not paused by hand: there is nothing to do\n")
}
