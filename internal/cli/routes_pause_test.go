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
)

// All routes are paused at once, those that are added later among them. The drain waits for the
// message that a handler has.
func TestAllRoutesPaused(t *testing.T) {
	t.Parallel() // most of it is waiting
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	service := newService(t, func(post, int) int { return http.StatusOK })
	slow := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-held
		service.ServeHTTP(w, r)
	}))
	t.Cleanup(release)
	i := installEmbedded(t, slow)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	i.environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	w := withServe{i, nil, tokens}
	operator := w.token(t, "ann", access.Operator, true)
	p := i.serve(t)
	wantRun(t, i.run(t, "routes", "pause", "--all", i.queue, "--reason", "x"), 2, "cannot be combined")
	wantRun(t, i.run(t, "routes", "pause", "--reason", "x"), 2, "or --all")
	wantRun(t, i.run(t, "routes", "pause", "--all", "--timeout", "1s", "--reason", "x"), 2, "--timeout is for --drain")
	i.send(t, i.exchange, "k", amqp.Publishing{MessageId: "m-1"})
	i.eventually(t, "action: published", 1)
	pause := []string{"routes", "pause", "--all", "--drain", "--reason", "RabbitMQ is upgraded"}
	until(t, "the message is in flight", func() bool {
		r := i.run(t, append(pause, "--timeout", "3s")...)
		wantRun(t, r, 1, "all routes are paused", "not drained within 3s: ", "all routes are still paused")
		return strings.Contains(r.err, "1 message of queue "+i.queue+" in flight")
	})
	release()
	wantRun(t, w.through(t, operator, pause...), 0, "all routes are paused\nno message is in flight\n")
	i.eventually(t, "action: paused and error.type: operator and not watership.queue: *", 2)
	wantRun(t, i.run(t, "routes"), 0, i.queue, "paused", "RabbitMQ is upgraded (ann)")
	wantRun(t, i.run(t, "doctor"), 0, "the route of queue "+i.queue+" is paused with all routes: RabbitMQ is upgraded (ann), since ", "watership routes resume --all")

	later := i.queue + "-later"
	i.rewrite(t, "\nretry:", "\n  - {queue: "+later+", handler: {http: {url: \""+slow+"\"}}}\nretry:")
	p.hangUp(t, `msg="configuration reloaded" changed=[routes] routes.added=[`+later+`]`)
	i.send(t, i.exchange, "k", amqp.Publishing{MessageId: "m-2"})
	i.send(t, "", later, amqp.Publishing{MessageId: "m-3"})
	if _, ready := i.ask(t, "/readyz"); strings.Count(ready, "is paused by an operator") != 2 {
		t.Errorf("ready: %s", ready)
	}
	wantRun(t, i.run(t, "routes", "resume", later), 2, "all routes are paused, the one of queue "+later+" among them: resume all")
	wantRun(t, i.run(t, "routes", "pause", i.queue, "--reason", "night"), 0, "is paused")
	wantRun(t, w.through(t, operator, "routes", "resume", i.queue), 0, "the route of queue "+i.queue+" is still paused, with all routes: resume all\n")
	if got := service.got(); len(got) != 1 {
		t.Errorf("handled %d messages while all routes were paused", len(got))
	}
	wantRun(t, w.through(t, operator, "routes", "resume", "--all"), 0, "all routes are no longer paused by hand")
	wantRun(t, i.run(t, "routes", "resume", "--all"), 0, "all routes are not paused by hand: there is nothing to do\n")
	wantRun(t, i.run(t, "routes", "resume", i.queue), 0, "the route of queue "+i.queue+" is not paused by hand: there is nothing to do\n")
	until(t, "all messages to be handled", func() bool { return len(service.got()) == 3 })
	wantRun(t, i.run(t, "doctor"), 0, "no route is paused")
}
