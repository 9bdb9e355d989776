package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/operation/access"
)

// The page of messages leads to a check with the schema of a route, which has bounds.
func TestValidate(t *testing.T) {
	t.Parallel()
	schema := filepath.Join(t.TempDir(), "order.json")
	if err := os.WriteFile(schema, []byte(`{"required": ["total"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const handler = `handler: {http: {url: "http://127.0.0.1:9/"}}}`
	s := newSystem(t, `WATERSHIP_ROUTES=[{queue: checked, schema: `+schema+`, `+handler+`, {queue: plain, `+handler+`]`)
	s.publish(t, "order-<b>1", `{"id": 1}`, nil)
	s.publish(t, "order-2", `{"id": 2, "total": 3}`, nil)
	s.await(t, 2, "action: published")
	s.await(t, 2, "action: handled")
	form := s.get(t, s.get(t, "/messages?q=action%3A+published").link(t, "/messages/validate"))
	form.want(t, http.StatusOK, "Which messages do not fit a schema?")
	form.without(t, "checked,")
	if !strings.Contains(form.text, `value="action: published"`) || !strings.Contains(form.text, `<option value="checked">`) || strings.Contains(form.text, `<option value="plain"`) {
		t.Errorf("the form has lost the query, or offers other routes than those with a schema: %s", form.text)
	}
	check := func(queue, query string) string {
		return "/messages/validate?" + url.Values{"q": {query}, "since": {"all"}, "queue": {queue}}.Encode()
	}
	page := s.get(t, check("checked", "action: published"))
	if !strings.Contains(page.text, `<option value="checked" selected>`) {
		t.Errorf("the form has lost the route: %s", page.text)
	}
	page.want(t, http.StatusOK, "2 messages checked, 1 of them does not fit order.json", "order-<b>1", `expected member "total" (#/required)`)
	if strings.Contains(page.text, "order-<b>") {
		t.Error("the id of a message is markup")
	}
	s.get(t, page.link(t, ":v1:")).want(t, http.StatusOK, "order-<b>1")
	s.get(t, check("checked", "message.id: order-2")).want(t, http.StatusOK, "1 message checked, 0 of them", "All fit.")
	s.get(t, check("checked", "message.id: none")).want(t, http.StatusOK, "No message matches")
	s.get(t, check("plain", "*")).want(t, http.StatusBadRequest, "the route of queue plain has no schema")
	s.get(t, check("checked", "acton: x")).want(t, http.StatusBadRequest, "no field")

	pages, err := console.New(console.Config{API: s.api})
	if err != nil {
		t.Fatal(err)
	}
	blind := access.Identity{Name: "bob", Role: access.Viewer}
	serveAs(t, pages, blind, check("checked", "action: published")).want(t, http.StatusForbidden, "Which messages do not fit a schema?")
	serveAs(t, pages, blind, "/messages?since=all").without(t, "Check these…")

	for n := range 2001 {
		s.publish(t, fmt.Sprint("many-", n), fmt.Sprintf(`{"n": %d}`, n), nil)
	}
	s.await(t, 2003, "action: published")
	s.get(t, check("checked", "action: published")).want(t, http.StatusOK, "2,000 messages checked, 1,999 of them do not fit", "The first 100 of 1,999", "There are more messages")
}

// Where no route has a schema, the page says how to get one.
func TestValidateWithoutSchema(t *testing.T) {
	t.Parallel()
	s := newSystem(t, `WATERSHIP_ROUTES=[{queue: plain, handler: {http: {url: "http://127.0.0.1:9/"}}}]`)
	page := s.get(t, "/messages/validate?q=queue%3A+plain")
	page.want(t, http.StatusOK, "No route has a schema", "routes[].schema", "watership validate 'queue: plain' --schema FILE")
	if buttons := page.values(t, "class"); slices.Contains(buttons, "main") {
		t.Errorf("the page has a form: %s", page.text)
	}
	s.get(t, "/messages/validate?queue=plain").want(t, http.StatusBadRequest, "the route of queue plain has no schema", "No route has a schema")
	b := newBrowser(t, s)
	for scheme, widths := range screens("validate") {
		for _, width := range widths {
			b.look(t, width, scheme)
			b.open(t, "/messages/validate")
			for _, barrier := range b.barriers(t) {
				t.Errorf("%s, %d pixels: %s", scheme, width, barrier)
			}
			b.picture(t, fmt.Sprintf("validate-%s-%d", scheme, width))
		}
	}
}
