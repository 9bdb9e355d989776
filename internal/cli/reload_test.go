package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
)

// hangUp reloads the configuration of serve and waits for a line of its log.
func (p *process) hangUp(t *testing.T, line string) {
	t.Helper()
	before := strings.Count(p.logs.String(), line)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, "serve to log "+line, func() bool { return strings.Count(p.logs.String(), line) > before })
}

// At load the handler of a route moves from service to service and back. Each message is
// handled once, by one of them.
func TestReloadOfServe(t *testing.T) {
	t.Parallel()
	const messages, reloads = 800, 8
	services := [2]*service{}
	for n := range services {
		services[n] = newService(t, func(post, int) int { return http.StatusOK })
	}
	i := installEmbedded(t, services[0].url)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	i.environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	w := withServe{i, nil, tokens}
	admin := w.token(t, "ada", access.Admin, true)
	operator := w.token(t, "ann", access.Operator, true)
	viewer := w.token(t, "vic", access.Viewer, true)
	p := i.serve(t)
	var publishing sync.WaitGroup
	ch := i.broker.Channel(t)
	publishing.Go(func() {
		for n := range messages {
			if err := ch.Publish(i.exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint(n), Body: []byte("x")}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := range reloads {
		i.rewrite(t, services[n%2].url, services[(n+1)%2].url)
		p.hangUp(t, `msg="configuration reloaded" changed=[routes] routes.added=[] routes.changed=[`+i.queue+`] routes.removed=[]`)
	}
	publishing.Wait()
	until(t, "all messages to be handled", func() bool { return len(services[0].got())+len(services[1].got()) >= messages })
	for n, service := range services {
		for id, posts := range service.got() {
			if len(posts) != 1 || len(services[1-n].got()[id]) > 0 {
				t.Errorf("message %s was handled %d times by service %d", id, len(posts), n)
			}
		}
	}

	i.rewrite(t, "concurrency: 32", "concurrency: many")
	p.hangUp(t, `msg="the configuration was not reloaded, and the running one stays" error="`+i.config)
	if _, ready := i.ask(t, "/readyz"); !strings.HasPrefix(ready, "ok\nthe configuration was not reloaded: ") {
		t.Errorf("ready: %s", ready)
	}
	if got := i.scrape(t)["watership_config_last_reload_successful"]; got != 0 {
		t.Errorf("metric %v", got)
	}
	wantRun(t, w.through(t, operator, "doctor"), 0, "configuration", `routes[0].concurrency: "many"`)
	wantRun(t, w.through(t, operator, "reload"), 1, "this needs admin")
	wantRun(t, w.through(t, viewer, "reload"), 1, "this needs admin")
	wantRun(t, w.through(t, admin, "reload"), 2, `routes[0].concurrency: "many"`)
	for _, want := range []string{`status=403 problem="[^"]*this needs admin`, `status=400 problem="[^"\n]*concurrency`} {
		if !regexp.MustCompile(want).MatchString(p.logs.String()) {
			t.Errorf("the log has no %s", want)
		}
	}

	i.rewrite(t, "concurrency: many", "concurrency: 16")
	for want, n := range map[string]int{"needs admin": 2, "concurrency": 1} {
		w.eventually(t, "action: audited and error.message: "+want, n)
	}
	i.rewrite(t, "source: test", "source: other\nstop_timeout: 20s")
	wantRun(t, w.through(t, admin, "reload"), 0, "reloaded:\n1 route changed\n  "+i.queue, "need a restart to take effect: source, stop_timeout")
	until(t, "the log to name the settings", func() bool {
		return strings.Contains(p.logs.String(), `msg="changed settings need a restart to take effect" settings="source, stop_timeout"`)
	})
	wantRun(t, w.through(t, admin, "reload", "-o", "json"), 0, `"changed":[],"restart":["source","stop_timeout"],"routes":{"added":[],"changed":[],"removed":[]}`)
	i.rewrite(t, "queue: "+i.queue+"\n", "queue: "+i.queue+"-2\n")
	wantRun(t, w.through(t, admin, "reload"), 0, "reloaded:\n1 route added\n  "+i.queue+"-2\n1 route removed\n  "+i.queue+"\n")
	wantRun(t, i.run(t, "reload"), 2, "give --server, or send SIGHUP")
	for name, names := range map[string]bool{"whole": true, "limited": false} {
		if got := w.status(t, access.Token{Name: name, Role: access.Viewer, Queues: map[string][]string{"limited": {"other"}}[name]}); strings.Contains(got, i.queue) != names {
			t.Errorf("%s: the status names queues of the reload: %s", name, got)
		}
	}
	if got := i.scrape(t)["watership_config_last_reload_successful"]; got != 1 {
		t.Errorf("metric %v", got)
	}
	if err := os.Truncate(i.config, 0); err != nil {
		t.Fatal(err)
	}
	wantRun(t, w.through(t, admin, "reload"), 2, "the configuration file has no settings")
	p.stop(t)
}

// status returns the state of the server as the API gives it to a token.
func (w withServe) status(t *testing.T, token access.Token) string {
	t.Helper()
	secret, err := access.OpenTokenFile(w.tokens).Create(token)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.listen+"/api/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+secret)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s %v", response.Status, text, err)
	}
	return string(text)
}

// Rules and receivers of alerts take effect with a reload, together with routes or not at all.
func TestReloadOfAlerts(t *testing.T) {
	t.Parallel() // most of it is waiting
	failing := newService(t, func(post, int) int { return http.StatusBadRequest })
	n, i := newNotices(t), installEmbedded(t, failing.url)
	p := i.serve(t)
	const rules = "rules: [{name: fresh, on: new_group}]"
	i.rewrite(t, "\nretry:", "\nalerts: {interval: 1s, group_wait: 1s, group_interval: 1s, "+rules+", receivers: [{name: hook, webhook: {url: \""+n.url+"\"}}]}\nretry:")
	p.hangUp(t, `msg="configuration reloaded" changed="[alerts.group_interval alerts.group_wait alerts.interval alerts.receivers alerts.rules]" routes.added=[] routes.changed=[] routes.removed=[]`)
	i.send(t, i.exchange, "k", amqp.Publishing{MessageId: "m-1"})
	n.await(t, "fresh", "firing")

	i.rewrite(t, rules, "rules: []")
	i.rewrite(t, "{exchange: "+i.exchange+`, key: "#"}`, "{exchange: "+i.exchange+"-none}")
	p.hangUp(t, `msg="the configuration was not reloaded, and the running one stays" error=`)
	failing.answerAll(http.StatusConflict) // another group of failures, for the rule that is still there
	i.send(t, i.exchange, "k", amqp.Publishing{MessageId: "m-2"})
	n.await(t, "fresh", "firing firing")
	i.rewrite(t, failing.url, failing.url+"other")
	i.rewrite(t, "{exchange: "+i.exchange+"-none}", "{exchange: "+i.exchange+`, key: "#"}`)
	p.hangUp(t, `msg="configuration reloaded" changed="[alerts.rules routes]" routes.added=[] routes.changed=[`+i.queue+`] routes.removed=[]`)
}
