package console_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
)

// namedSystem is a system with a message of C-1, whom its header names.
func namedSystem(t *testing.T, more ...string) served {
	t.Helper()
	folder := t.TempDir()
	settings := append(more, `WATERSHIP_REDACT_RULES=[{header: customer, subject: true}]`)
	for name, text := range map[string]string{"HASH_KEY": strings.Repeat("0a", 32), "ORIGINAL_KEYS": "a " + strings.Repeat("0b", 32)} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		settings = append(settings, "WATERSHIP_REDACT_"+name+"_FILE="+path)
	}
	s := newSystem(t, settings...)
	s.publish(t, "of C-1", "{}", amqp.Table{"customer": "C-1"})
	s.await(t, 1, "action: published")
	return s
}

// A person is named in the body of a form, erased by the hashes that a page shows, and in no address.
func TestAPersonIsErased(t *testing.T) {
	s := namedSystem(t)
	s.get(t, "/subjects").want(t, http.StatusOK, "Erase a person", "Find")
	s.get(t, "/subjects?subject=C-1").without(t, "What is recorded")
	s.post(t, "/subjects/find", url.Values{"subject": {"C-2"}}).want(t, http.StatusOK, "Nothing is recorded about this person")
	found := s.post(t, "/subjects/find", url.Values{"subject": {"C-1"}})
	found.want(t, http.StatusOK, "Messages 1, in ", "It cannot be undone.")
	if strings.Contains(found.text, "C-1") {
		t.Error("the page has the subject")
	}
	path, form := found.form(t, "Erase")
	s.post(t, path, form).want(t, http.StatusUnprocessableEntity, "Say which request it is, without a name.")
	form.Set("reason", "asked on 4 May")
	form.Set("expect", "2")
	s.post(t, path, form).want(t, http.StatusConflict, "1 key matches, 2 expected: nothing was changed", "Find the same person again")
	form.Set("expect", "1")
	done := s.post(t, path, form)
	done.want(t, http.StatusOK, "Erased: 1 key destroyed")
	if strings.Contains(done.Request.URL.String(), "C-1") {
		t.Errorf("the address is %s", done.Request.URL)
	}
	s.post(t, "/subjects/find", url.Values{"subject": {"C-1"}}).want(t, http.StatusOK, "No key is left")
}

// On a phone, nothing of what is found scrolls sideways, and the person is erased in the browser.
func TestAPersonIsErasedOnAPhone(t *testing.T) {
	s := namedSystem(t)
	b := newBrowser(t, s)
	b.look(t, 360, "dark")
	b.open(t, "/subjects")
	b.enter(t, "input[name=subject]", "C-1")
	b.click(t, "form[action='/subjects/find'] button")
	b.sees(t, "#record-title", "What is recorded")
	if wide := value[int64](t, b, "document.scrollingElement.scrollWidth"); wide > 360 {
		t.Errorf("the page is %d pixels wide", wide)
	}
	for _, barrier := range b.barriers(t) {
		t.Error(barrier)
	}
	b.picture(t, "subjects-found-dark-360")
	b.enter(t, "input[name=reason]", "asked on 4 May")
	b.click(t, "button.danger")
	b.sees(t, "p.done", "Erased: 1 key destroyed")
}

// Only an admin erases, and only after a second person's approval if a rule says so, who sees the hash.
func TestAnErasureOnAPageIsApproved(t *testing.T) {
	file, secret := filepath.Join(t.TempDir(), "tokens.json"), map[string]string{}
	for _, token := range []access.Token{{Name: "ada", Role: access.Admin}, {Name: "abe", Role: access.Admin}, {Name: "otto", Role: access.Operator}, {Name: "lim", Role: access.Admin, Queues: []string{"orders"}}} {
		made, err := access.OpenTokenFile(file).Create(token)
		if err != nil {
			t.Fatal(err)
		}
		secret[token.Name] = "Bearer " + made
	}
	s := namedSystem(t, "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+file, "WATERSHIP_APPROVALS_RULES=[{actions: [erase]}]")
	get := func(name, path string) document { return s.get(t, path, "Authorization", secret[name]) }
	post := func(name, path string, form url.Values) document {
		return s.do(t, http.MethodPost, path, form, "Content-Type", "application/x-www-form-urlencoded", "Origin", s.url, "Authorization", secret[name])
	}
	for _, name := range []string{"otto", "lim"} {
		get(name, "/subjects").want(t, http.StatusOK, "You may not erase anybody")
	}
	named := url.Values{"subject": {"C-1"}}
	post("otto", "/subjects/find", named).want(t, http.StatusForbidden, "an erasure")
	action, form := post("ada", "/subjects/find", named).form(t, "Erase")
	form.Set("reason", "asked on 4 May")
	post("ada", action, form).want(t, http.StatusConflict, "needs the approval of a second person", "Find the same person again")
	action, form = get("abe", "/approvals").form(t, "Approve, and do it")
	form.Set("decision", "approve")
	approved := post("abe", action, form)
	approved.want(t, http.StatusOK, "of ada is done.")
	approved.without(t, "C-1")
	post("ada", "/subjects/find", named).want(t, http.StatusOK, "No key is left")
}
