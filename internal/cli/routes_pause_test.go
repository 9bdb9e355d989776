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

// All routes are paused at once, those that are added later among them. The drain waits for the
// message that a handler has.
func TestAllRoutesPaused(t *testing.T) {
	t.Parallel() // most of it is waiting
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	slow := servertest.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-held
		service.ServeHTTP(w, r)
	}))
	t.Cleanup(release)
	i := servertest.InstallEmbedded(t, slow)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	i.Environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	w := withServe{i, nil, tokens}
	operator := w.token(t, "ann", access.Operator, true)
	p := i.Serve(t)
	servertest.WantRun(t, i.Run(t, "routes", "pause", "--all", i.Queue, "--reason", "x"), 2, "cannot be combined")
	servertest.WantRun(t, i.Run(t, "routes", "pause", "--reason", "x"), 2, "or --all")
	servertest.WantRun(t, i.Run(t, "routes", "pause", "--all", "--timeout", "1s", "--reason", "x"), 2, "--timeout is for --drain")
	i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-1"})
	i.Eventually(t, "action: published", 1)
	pause := []string{"routes", "pause", "--all", "--drain", "--reason", "RabbitMQ is upgraded"}
	servertest.Until(t, "the message is in flight", func() bool {
		r := i.Run(t, append(pause, "--timeout", "3s")...)
		servertest.WantRun(t, r, 1, "all routes are paused", "not drained within 3s: ", "all routes are still paused")
		return strings.Contains(r.Err, "1 message of queue "+i.Queue+" in flight")
	})
	release()
	servertest.WantRun(t, w.through(t, operator, pause...), 0, "all routes are paused\nno message is in flight\n")
	i.Eventually(t, "action: paused and error.type: operator and not watership.queue: *", 2)
	servertest.WantRun(t, i.Run(t, "routes"), 0, i.Queue, "paused", "RabbitMQ is upgraded (ann)")
	servertest.WantRun(t, i.Run(t, "doctor"), 0, "the route of queue "+i.Queue+" is paused with all routes: RabbitMQ is upgraded (ann), since ", "watership routes resume --all")

	later := i.Queue + "-later"
	i.Rewrite(t, "\nretry:", "\n  - {queue: "+later+", handler: {http: {url: \""+slow+"\"}}}\nretry:")
	p.HangUp(t, `msg="configuration reloaded" changed=[routes] routes.added=[`+later+`]`)
	i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-2"})
	i.Send(t, "", later, amqp.Publishing{MessageId: "m-3"})
	if _, ready := i.Ask(t, "/readyz"); strings.Count(ready, "is paused by an operator") != 2 {
		t.Errorf("ready: %s", ready)
	}
	servertest.WantRun(t, i.Run(t, "routes", "resume", later), 2, "all routes are paused, the one of queue "+later+" among them: resume all")
	servertest.WantRun(t, i.Run(t, "routes", "pause", i.Queue, "--reason", "night"), 0, "is paused")
	servertest.WantRun(t, w.through(t, operator, "routes", "resume", i.Queue), 0, "the route of queue "+i.Queue+" is still paused, with all routes: resume all\n")
	if got := service.Got(); len(got) != 1 {
		t.Errorf("handled %d messages while all routes were paused", len(got))
	}
	servertest.WantRun(t, w.through(t, operator, "routes", "resume", "--all"), 0, "all routes are no longer paused by hand")
	servertest.WantRun(t, i.Run(t, "routes", "resume", "--all"), 0, "all routes are not paused by hand: there is nothing to do\n")
	servertest.WantRun(t, i.Run(t, "routes", "resume", i.Queue), 0, "the route of queue "+i.Queue+" is not paused by hand: there is nothing to do\n")
	servertest.Until(t, "all messages to be handled", func() bool { return len(service.Got()) == 3 })
	servertest.WantRun(t, i.Run(t, "doctor"), 0, "no route is paused")
}
