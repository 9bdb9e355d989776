package console_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// An admin gives a queue of another program retries after a preview, and takes them away.
func TestPolicyOfAQueue(t *testing.T) {
	t.Parallel()
	broker := rabbittest.NewestServer(t).VHost(t)
	s := newSystem(t, "WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+broker.ManagementURL)
	queue := broker.Queue(t, nil)
	page := s.get(t, whole("/routes"))
	page.want(t, http.StatusOK, "Queues of other programs", "Add retries…")
	if !strings.Contains(page.text, `<option value="`+queue+`">`) {
		t.Errorf("the page does not offer queue %s", queue)
	}
	path := func(action string) string {
		return "/routes/policy?" + url.Values{"queue": {queue}, "action": {action}}.Encode()
	}
	s.get(t, path("remove")).want(t, http.StatusConflict, "there is no policy")
	preview := s.get(t, path("add"))
	preview.want(t, http.StatusOK, "Retries for "+queue, "dead-letter-exchange: watership.retry", "Save this policy")
	action, form := preview.form(t, "Save this policy")
	other := url.Values{"queue": {queue}, "action": {"add"}, "expect": {"1"}, "digest": {"other"}, "reason": {"late bills"}}
	refused := s.post(t, action, other)
	refused.want(t, http.StatusConflict, "nothing was changed", "Save this policy")
	if _, again := refused.form(t, "Save this policy"); again.Get("reason") != "late bills" {
		t.Errorf("the form has lost the reason: %q", again)
	}
	other.Del("digest")
	s.post(t, action, other).want(t, http.StatusUnprocessableEntity, "the form has no change")
	for range 2 { // as with a second click
		s.post(t, action, form).want(t, http.StatusOK, "RabbitMQ has applied the change", "is retried now")
	}
	s.get(t, path("add")).want(t, http.StatusOK, "Nothing to change", "has policy")
	routes := s.get(t, whole("/routes"))
	routes.want(t, http.StatusOK, queue, "consumed by another program")
	if strings.Contains(routes.text, "Pause "+queue) {
		t.Error("the queue of another program can be paused")
	}
	action, form = s.get(t, path("remove")).form(t, "Delete the policy")
	s.post(t, action, form).want(t, http.StatusOK, "RabbitMQ has applied the change", "is retried no more")
	s.get(t, path("remove")).want(t, http.StatusConflict, "there is no policy")
	s.get(t, "/routes/policy").want(t, http.StatusBadRequest, "no queue is named")
	s.await(t, 1, "action: audited and watership.audit.operation: add and not error.type: *")
}

// The queue of parked copies is no route, whether or not its route has a handler here.
func TestParkedCopiesAreNoRoute(t *testing.T) {
	t.Parallel()
	s := newSystem(t, `WATERSHIP_ROUTES=[{queue: downloads, park: true}]`)
	page := s.get(t, whole("/routes"))
	page.want(t, http.StatusOK, "2 routes", "downloads")
	if strings.Contains(page.text, `id="downloads.poison"`) {
		t.Error("downloads.poison is listed as a route")
	}
}

// An admin reloads the configuration, and sees its mistakes.
func TestReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "watership.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("retry: {policies: {slow: {first: 1m, attempts: 3}}}\n")
	s := newSystem(t, "WATERSHIP_CONFIG="+file)
	s.get(t, whole("/routes")).want(t, http.StatusOK, "Reload the configuration…")
	page := s.get(t, "/routes/reload")
	page.want(t, http.StatusOK, "Each process")
	action, form := page.form(t, "Reload")
	s.post(t, action, form).want(t, http.StatusOK, "Reloaded: nothing has changed.")

	write("retry: {policies: {slow: {first: 2m, attempts: 3}}}\nstore: {retention: {traffic: 90d}}\n")
	action, form = s.get(t, "/routes/reload").form(t, "Reload")
	for range 2 { // as with a second click
		s.post(t, action, form).want(t, http.StatusOK, "Settings retry.policies", "Need a restart store.retention")
	}
	write("retry: {policies: {slow: {first: 2m, attempts: none}}}\n")
	action, form = s.get(t, "/routes/reload").form(t, "Reload")
	s.post(t, action, form).want(t, http.StatusBadRequest, "attempts")
}

func TestOthersChangeNoRoutes(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	pages, err := console.New(console.Config{API: s.api})
	if err != nil {
		t.Fatal(err)
	}
	operator := access.Identity{Name: "olga", Role: access.Operator}
	serveAs(t, pages, operator, whole("/routes")).without(t, "Add retries…", "Reload the configuration…")
	serveAs(t, pages, operator, "/routes/policy?queue=orders").want(t, http.StatusForbidden, "needs admin")
	serveAs(t, pages, operator, "/routes/reload").want(t, http.StatusForbidden, "needs admin")
}

// A name of dots is the name of one queue, not a path to the pause of all routes.
func TestPauseOfAQueueOfDots(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, queue := range []string{".", "..", "a/b"} {
		page := s.post(t, "/routes/pause", url.Values{"queue": {queue}, "reason": {"a test"}, "key": {"k" + queue}})
		page.want(t, http.StatusBadRequest, "no route has the queue "+queue)
	}
}
