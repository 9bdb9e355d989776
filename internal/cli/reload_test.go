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
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// At load the handler of a route moves from service to service and back. Each message is
// handled once, by one of them.
func TestReloadOfServe(t *testing.T) {
	t.Parallel()
	const messages, reloads = 800, 8
	services := [2]*servertest.Service{}
	for n := range services {
		services[n] = servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	}
	i := servertest.InstallEmbedded(t, services[0].URL)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	i.Environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	w := withServe{i, nil, tokens}
	admin := w.token(t, "ada", access.Admin, true)
	operator := w.token(t, "ann", access.Operator, true)
	viewer := w.token(t, "vic", access.Viewer, true)
	p := i.Serve(t)
	var publishing sync.WaitGroup
	ch := i.Broker.Channel(t)
	publishing.Go(func() {
		for n := range messages {
			if err := ch.Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint(n), Body: []byte("x")}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := range reloads {
		i.Rewrite(t, services[n%2].URL, services[(n+1)%2].URL)
		p.HangUp(t, `msg="configuration reloaded" changed=[routes] routes.added=[] routes.changed=[`+i.Queue+`] routes.removed=[]`)
	}
	publishing.Wait()
	servertest.Until(t, "all messages to be handled", func() bool { return len(services[0].Got())+len(services[1].Got()) >= messages })
	for n, service := range services {
		for id, posts := range service.Got() {
			if len(posts) != 1 || len(services[1-n].Got()[id]) > 0 {
				t.Errorf("message %s was handled %d times by service %d", id, len(posts), n)
			}
		}
	}

	i.Rewrite(t, "concurrency: 32", "concurrency: many")
	p.HangUp(t, `msg="the configuration was not reloaded, and the running one stays" error="`+i.Config)
	if _, ready := i.Ask(t, "/readyz"); !strings.HasPrefix(ready, "ok\nthe configuration was not reloaded: ") {
		t.Errorf("ready: %s", ready)
	}
	if got := i.Scrape(t)["watership_config_last_reload_successful"]; got != 0 {
		t.Errorf("metric %v", got)
	}
	servertest.WantRun(t, w.through(t, operator, "doctor"), 0, "configuration", `routes[0].concurrency: "many"`)
	servertest.WantRun(t, w.through(t, operator, "reload"), 1, "this needs admin")
	servertest.WantRun(t, w.through(t, viewer, "reload"), 1, "this needs admin")
	servertest.WantRun(t, w.through(t, admin, "reload"), 2, `routes[0].concurrency: "many"`)
	for _, want := range []string{`status=403 problem="[^"]*this needs admin`, `status=400 problem="[^"\n]*concurrency`} {
		if !regexp.MustCompile(want).MatchString(p.Logs.String()) {
			t.Errorf("the log has no %s", want)
		}
	}

	i.Rewrite(t, "concurrency: many", "concurrency: 16")
	for want, n := range map[string]int{"needs admin": 2, "concurrency": 1} {
		w.Eventually(t, "action: audited and error.message: "+want, n)
	}
	i.Rewrite(t, "source: test", "source: other\nstop_timeout: 20s")
	servertest.WantRun(t, w.through(t, admin, "reload"), 0, "reloaded:\n1 route changed\n  "+i.Queue, "need a restart to take effect: source, stop_timeout")
	servertest.Until(t, "the log to name the settings", func() bool {
		return strings.Contains(p.Logs.String(), `msg="changed settings need a restart to take effect" settings="source, stop_timeout"`)
	})
	servertest.WantRun(t, w.through(t, admin, "reload", "-o", "json"), 0, `"changed":[],"restart":["source","stop_timeout"],"routes":{"added":[],"changed":[],"removed":[]}`)
	i.Rewrite(t, "queue: "+i.Queue+"\n", "queue: "+i.Queue+"-2\n")
	servertest.WantRun(t, w.through(t, admin, "reload"), 0, "reloaded:\n1 route added\n  "+i.Queue+"-2\n1 route removed\n  "+i.Queue+"\n")
	servertest.WantRun(t, i.Run(t, "reload"), 2, "give --server, or send SIGHUP")
	for name, names := range map[string]bool{"whole": true, "limited": false} {
		if got := w.status(t, access.Token{Name: name, Role: access.Viewer, Queues: map[string][]string{"limited": {"other"}}[name]}); strings.Contains(got, i.Queue) != names {
			t.Errorf("%s: the status names queues of the reload: %s", name, got)
		}
	}
	if got := i.Scrape(t)["watership_config_last_reload_successful"]; got != 1 {
		t.Errorf("metric %v", got)
	}
	if err := os.Truncate(i.Config, 0); err != nil {
		t.Fatal(err)
	}
	servertest.WantRun(t, w.through(t, admin, "reload"), 2, "the configuration file has no settings")
	p.Stop(t)
}

// status returns the state of the server as the API gives it to a token.
func (w withServe) status(t *testing.T, token access.Token) string {
	t.Helper()
	secret, err := access.OpenTokenFile(w.tokens).Create(token)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.Listen+"/api/v1/status", nil)
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
	failing := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusBadRequest })
	n, i := newNotices(t), servertest.InstallEmbedded(t, failing.URL)
	p := i.Serve(t)
	const rules = "rules: [{name: fresh, on: new_group}]"
	i.Rewrite(t, "\nretry:", "\nalerts: {interval: 1s, group_wait: 1s, group_interval: 1s, "+rules+", receivers: [{name: hook, webhook: {url: \""+n.url+"\"}}]}\nretry:")
	p.HangUp(t, `msg="configuration reloaded" changed="[alerts.group_interval alerts.group_wait alerts.interval alerts.receivers alerts.rules]" routes.added=[] routes.changed=[] routes.removed=[]`)
	awaitAlerts(t, i) // groups that are there at the first evaluation are not new
	i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-1"})
	n.await(t, "fresh", "firing")

	i.Rewrite(t, rules, "rules: []")
	i.Rewrite(t, "{exchange: "+i.Exchange+`, key: "#"}`, "{exchange: "+i.Exchange+"-none}")
	p.HangUp(t, `msg="the configuration was not reloaded, and the running one stays" error=`)
	failing.AnswerAll(http.StatusConflict) // another group of failures, for the rule that is still there
	i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-2"})
	n.await(t, "fresh", "firing firing")
	i.Rewrite(t, failing.URL, failing.URL+"other")
	i.Rewrite(t, "{exchange: "+i.Exchange+"-none}", "{exchange: "+i.Exchange+`, key: "#"}`)
	p.HangUp(t, `msg="configuration reloaded" changed="[alerts.rules routes]" routes.added=[] routes.changed=[`+i.Queue+`] routes.removed=[]`)
}
