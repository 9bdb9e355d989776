package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
)

// The URL of a web hook may be a secret, from its path on.
func TestSecretURLsOfSubscriptions(t *testing.T) {
	onEvery(t, func(t *testing.T, r served) {
		made := r.do(t, http.MethodPost, "/subscriptions", `{"name":"hook","query":"*","from":"start","url":"https://usr:PASS@hooks.invalid/services/SECRET?token=QUERY"}`)
		if made.StatusCode != http.StatusOK && made.StatusCode != http.StatusCreated {
			t.Fatalf("%s %s", made.Status, made.body)
		}
		viewer := r.as(t, access.Token{Name: "bob", Role: access.Viewer})
		seen := map[string]string{
			"made": string(made.body), "audited": strings.Join(r.recorder.take("subscribe"), " "),
			"shown": string(viewer.do(t, http.MethodGet, "/subscriptions/hook", "").body),
		}
		for place, text := range seen {
			if !strings.Contains(text, "https://hooks.invalid") || strings.Contains(text, "SECRET") || strings.Contains(text, "PASS") || strings.Contains(text, "QUERY") {
				t.Errorf("%s: %s", place, text)
			}
		}
	})
}
