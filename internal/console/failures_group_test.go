package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/schemas"
)

// An operator assigns, notes, mutes and resolves a group on its page, with forms alone, and
// sees when it comes back.
func TestTriage(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, orders(2)...)
	page := s.get(t, "/failures")
	group := page.link(t, "/failures/groups/")
	s.get(t, group).want(t, http.StatusOK, "2 failures", "no table for order #", "new", "nobody", "Newest failure", "1 of 2", "Nobody has replayed, decided or noted")
	press := func(button, do string, pairs ...string) document {
		t.Helper()
		action, form := s.get(t, group).form(t, button)
		form.Set("do", do)
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return s.post(t, action, form)
	}
	press("Assign", "assigned", "assignee", "").want(t, http.StatusBadRequest, "expected the name of the assignee")
	press("Assign", "assigned", "assignee", "ada <b>").want(t, http.StatusOK, "Assigned.", "ada <b>")
	press("Add note", "noted", "note", "OPS-12:\nthe table is gone").want(t, http.StatusOK, "Noted.", "local", "the table is gone")
	long := strings.Repeat("🐇\r\n", reason.Max/2-1) + "🐇🐇"
	press("Add note", "noted", "note", long).want(t, http.StatusOK, "Noted.")
	press("Add note", "noted", "note", long+"x").want(t, http.StatusUnprocessableEntity, "expected length <= 1000")
	press("Mute", "muted", "hours", "soon", "reason", "known").want(t, http.StatusUnprocessableEntity, "expected the hours")
	s.mutesUntil(t, group)
	press("Mute", "muted", "hours", "NaN", "reason", "known").want(t, http.StatusUnprocessableEntity, "expected the hours")
	press("Mute", "muted", "failures", "1").want(t, http.StatusBadRequest, "expected a reason")
	press("Mute", "muted", "hours", "2", "failures", "1", "reason", "known").want(t, http.StatusOK, "Muted.", "until 1 further failure", "known")
	hidden := s.get(t, "/failures")
	hidden.want(t, http.StatusOK, "1 group muted, and no other failures")
	s.get(t, hidden.link(t, "muted=true")).want(t, http.StatusOK, "2 failures in 1 group", "ada <b>", "2 notes", "muted", "Hide muted groups")
	press("Mute", "unmuted").want(t, http.StatusOK, "No longer muted.")
	press("Mute", "unmuted").want(t, http.StatusOK, "Nothing to do: the group is not muted.")
	press("Mute", "muted", "failures", "1", "reason", "known").want(t, http.StatusOK, "Muted.")
	s.failAgain(t, 3)
	s.get(t, "/failures").want(t, http.StatusOK, "3 failures in 1 group")

	press("Resolve 3 failures", "resolved", "reason", " ").want(t, http.StatusUnprocessableEntity, "a resolution needs a reason")
	action, form := s.get(t, group).form(t, "Resolve 3 failures")
	form.Set("do", "resolved")
	form.Set("reason", "fixed")
	s.failAgain(t, 4) // which the operator does not see
	s.post(t, action, form).want(t, http.StatusOK, "Resolved: 3 failures discarded.", "1 failure", "regressed", "fixed")
	s.get(t, "/failures").want(t, http.StatusOK, "1 failure in 1 group", "regressed")
	press("Assign to nobody", "unassigned").want(t, http.StatusOK, "Assigned to nobody.")
	if n := s.count(t, "action: triaged and user.name: local"); n != 10 {
		t.Errorf("%d decisions", n)
	}
	s.get(t, "/failures/groups/nobody").want(t, http.StatusNotFound, "no group of failures has the id")
}

// mutesUntil mutes a group up to a time in the zone of the page, and ends that.
func (s served) mutesUntil(t *testing.T, group string) {
	t.Helper()
	at := time.Now().Add(26 * time.Hour).Truncate(time.Minute)
	zone := time.FixedZone("UTC+5", 5*60*60) // in a zone whose name has the sign of POSIX
	field := func(at time.Time) string { return at.In(zone).Format("2006-01-02T15:04") }
	mute := func(pairs ...string) document {
		t.Helper()
		form := url.Values{"do": {"muted"}, "reason": {"known"}}
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return s.do(t, http.MethodPost, group, form, "Content-Type", "application/x-www-form-urlencoded", "Origin", s.url, "Cookie", "watership-zone=Etc/GMT-5")
	}
	refused := mute("until", field(time.Now().Add(-2*time.Minute)))
	refused.want(t, http.StatusUnprocessableEntity, "has passed", "in Etc/GMT-5")
	if values := refused.values(t, "value"); !slices.Contains(values, field(time.Now().Add(-2*time.Minute))) && !slices.Contains(values, field(time.Now().Add(-3*time.Minute))) {
		t.Errorf("the time is lost: %q", values)
	}
	mute("until", "soon").want(t, http.StatusUnprocessableEntity, `"soon" is no time`, "in Etc/GMT-5")
	mute("until", field(at), "hours", "2").want(t, http.StatusUnprocessableEntity, "expected hours or a time, not both")
	if n := s.count(t, "watership.triage.decision: muted"); n != 0 {
		t.Errorf("muted %d times", n)
	}
	mute("until", field(at)).want(t, http.StatusOK, "Muted.")
	s.get(t, group).want(t, http.StatusOK, "until "+at.UTC().Format("2006-01-02 15:04:05"))
	action, form := s.get(t, group).form(t, "Unmute")
	form.Set("do", "unmuted")
	s.post(t, action, form).want(t, http.StatusOK, "No longer muted.")
}

// failAgain publishes one more message that fails.
func (s served) failAgain(t *testing.T, failures int64) {
	t.Helper()
	s.broken.Store(true)
	s.publish(t, "order-99", `{}`, nil)
	s.await(t, failures, "action: poisoned")
	s.broken.Store(false)
}

func TestFailuresByFields(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, orders(3)...)
	page := s.get(t, "/failures?q=queue%3A+orders")
	action, form := page.form(t, "Group")
	form.Set("fields", "queue, headers.nothing")
	by := s.get(t, action+"?"+form.Encode())
	by.want(t, http.StatusOK, "3 failures in 1 group", "watership.queue", "orders", "(none)")
	s.get(t, by.link(t, "not+headers.nothing")).want(t, http.StatusOK, "3 failures in 1 group")
	s.get(t, "/failures/by?fields=queue&fields=headers.tenant").want(t, http.StatusOK, "watership.queue", "headers.tenant")
	s.get(t, "/failures/by?fields=error.message").want(t, http.StatusBadRequest, "has texts")
	s.get(t, "/failures/by").want(t, http.StatusBadRequest, "expected fields to group by")
}

// Viewers see decisions, and make none; callers with limits see no other groups.
func TestTriageOfViewers(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	secret := map[string]string{}
	for _, token := range []access.Token{{Name: "vera", Role: access.Viewer}, {Name: "lou", Role: access.Operator, Queues: []string{"mail"}}} {
		made, err := access.OpenTokenFile(tokens).Create(token)
		if err != nil {
			t.Fatal(err)
		}
		secret[token.Name] = made
	}
	s := newSystem(t, "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	s.fail(t, orders(2)...)
	as := func(name, path string) document {
		return s.get(t, path, "Authorization", "Bearer "+secret[name])
	}
	group := as("vera", "/failures").link(t, "/failures/groups/")
	page := as("vera", group)
	page.want(t, http.StatusOK, "2 failures", "nobody")
	if buttons := page.values(t, "name"); slices.Contains(buttons, "do") {
		t.Errorf("%q", buttons)
	}
	as("lou", group).want(t, http.StatusNotFound, "no group of failures has the id")
	for name, status := range map[string]int{"vera": http.StatusForbidden, "lou": http.StatusNotFound} {
		for _, do := range []string{"unmuted", "resolved"} {
			form := url.Values{"do": {do}, "expect": {"2"}, "up_to": {"1"}, "reason": {"x"}}
			got := s.do(t, http.MethodPost, group, form, "Authorization", "Bearer "+secret[name], "Content-Type", "application/x-www-form-urlencoded")
			if got.StatusCode != status {
				t.Errorf("%s: %s as %s", got.Status, do, name)
			}
		}
	}
	if n := s.count(t, "action: triaged"); n != 0 {
		t.Errorf("%d decisions", n)
	}
}

// An operator triages a group in a browser, and its pages have no barriers.
func TestTriageInTheBrowser(t *testing.T) {
	s := newSystem(t)
	s.fail(t, orders(2)...)
	b := newBrowser(t, s)
	b.look(t, 1600, "light")
	b.open(t, "/failures")
	b.click(t, `a[href^="/failures/groups/"]`)
	b.click(t, "summary:has(+ form input[name=assignee])")
	b.enter(t, "input[name=assignee]", "ada")
	b.click(t, "button[value=assigned]")
	b.sees(t, ".done", "Assigned.")
	b.click(t, "summary:has(+ form button[value=muted])")
	at := value[string](t, b, `(() => {
		const at = new Date(Date.now() + 36e5);
		const field = document.querySelector("input[name=until][type=datetime-local]");
		const two = (n) => String(n).padStart(2, "0");
		field.value = `+"`${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`"+`;
		return field.value.replace("T", " ");
	})()`)
	b.enter(t, "form:has(button[value=muted]) input[name=reason]", "the supplier is closed")
	b.click(t, "button[value=muted]")
	b.sees(t, ".done", "Muted.")
	b.sees(t, "#state", "until "+at)
	group := value[string](t, b, "location.pathname")
	b.open(t, "/failures?muted=true")
	b.enterButton(t, "button[data-select-all]")
	b.enterButton(t, "button[value=resolve]")
	b.sees(t, "h1", "Resolve 1 group")
	for _, path := range []string{group, "/failures?muted=true", "/failures/resolve?group=" + group[strings.LastIndex(group, "/")+1:], "/failures/by?fields=queue"} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range widths() {
				b.look(t, width, scheme)
				b.open(t, path)
				if wide := value[int64](t, b, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s is %d pixels wide on a screen of %d", path, wide, width)
				}
				for _, barrier := range b.barriers(t) {
					t.Errorf("%s, %s, %d pixels: %s", path, scheme, width, barrier)
				}
				b.picture(t, fmt.Sprintf("triage-%s-%s-%d", pictureName(path[:min(len(path), 20)]), scheme, width))
			}
		}
	}
	b.open(t, "/failures?muted=true")
	b.click(t, "input[name=kind]")
	b.enterButton(t, "button[value=resolve]")
	b.sees(t, "h1", "Resolve 1 group")
	b.enter(t, "input[name=reason]", "fixed")
	b.click(t, "form.card button.danger")
	b.sees(t, ".done", "Resolved 1 group: 2 failures discarded.")
}

// The page of a group says what distinguishes its failures, with links to the messages, and reads no bodies
// for those who may not.
func TestWhyOnTheGroupPage(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	secret := map[string]string{}
	for _, token := range []access.Token{{Name: "vera", Role: access.Viewer}, {Name: "bob", Role: access.Viewer, Bodies: true}} {
		made, err := access.OpenTokenFile(tokens).Create(token)
		if err != nil {
			t.Fatal(err)
		}
		secret[token.Name] = made
	}
	s := newSystem(t, "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	var events []schemas.Event
	for n := range 90 {
		e := schemas.Event{Action: schemas.Handled, Envelope: schemas.Envelope{
			Headers: amqp.Table{"tenant": fmt.Sprint("t", n%30)}, Body: fmt.Appendf(nil, `{"country": "c%d"}`, n%30),
			Properties: schemas.Properties{MessageID: fmt.Sprint("order-", n), ContentType: "application/json"},
		}}
		e.Queue, e.Time = "orders", time.Now().Add(-time.Minute)
		if n < 30 {
			e.Action, e.Failure, e.Message = schemas.Poisoned, schemas.Failure{Message: "no table"}, fmt.Sprint("i-", n)
			e.Envelope.Headers["tenant"], e.Envelope.Body = "acme <b>", []byte(`{"country": "nowhere"}`)
		}
		events = append(events, e)
	}
	s.keep(t, events...)
	as := func(name, path string) document {
		return s.get(t, path, "Authorization", "Bearer "+secret[name])
	}
	group := as("vera", "/failures?since=all").link(t, "/failures/groups/")
	late := as("vera", group)
	late.want(t, http.StatusOK, "What distinguishes them", "Comparing with handled messages")
	hidden := as("vera", late.link(t, "wait=1"))
	hidden.want(t, http.StatusOK, "headers.tenant", "acme <b>", "100 %", "Fields of bodies are left out")
	if strings.Contains(hidden.text, "nowhere") {
		t.Error("a body is shown")
	}
	as("bob", group+"?wait=1").want(t, http.StatusOK, "headers.tenant", "body.json.country", "nowhere")
	const readings = `action: audited and watership.audit.operation: "read bodies" and user.name: bob`
	rabbittest.Eventually(t, "two records: the newest failure is shown with its body", func() bool { return s.count(t, readings) >= 2 })
	if n := s.count(t, readings); n != 2 {
		t.Errorf("%d records of the bodies that bob read", n)
	}
	as("vera", hidden.link(t, "/messages?q=")).want(t, http.StatusOK, "order-1")
}
