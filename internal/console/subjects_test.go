package console_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A person is named in the body of a form, erased by the hashes that a page shows, and in no address.
func TestAPersonIsErased(t *testing.T) {
	folder := t.TempDir()
	settings := []string{`WATERSHIP_REDACT_RULES=[{header: customer, subject: true}]`}
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
	s.get(t, "/subjects").want(t, http.StatusOK, "Erase a person", "Find")
	s.get(t, "/subjects?subject=C-1").without(t, "What is recorded")
	s.post(t, "/subjects/find", url.Values{"subject": {"C-2"}}).want(t, http.StatusOK, "No key is left")
	found := s.post(t, "/subjects/find", url.Values{"subject": {"C-1"}})
	found.want(t, http.StatusOK, "1, in 1 event", "It cannot be undone.")
	if strings.Contains(found.text, "C-1") {
		t.Error("the page has the subject")
	}
	path, form := found.form(t, "Erase")
	s.post(t, path, form).want(t, http.StatusUnprocessableEntity, "Say who asked for it, and when.")
	form.Set("reason", "asked on 4 May")
	done := s.post(t, path, form)
	done.want(t, http.StatusOK, "Erased: 1 key destroyed")
	if strings.Contains(done.Request.URL.String(), "C-1") {
		t.Errorf("the address is %s", done.Request.URL)
	}
	s.post(t, "/subjects/find", url.Values{"subject": {"C-1"}}).want(t, http.StatusOK, "No key is left")
}
