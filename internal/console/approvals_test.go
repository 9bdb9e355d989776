package console_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
)

// A discard on a page waits, is shown to somebody else, and is done when that person approves it.
func TestApprovals(t *testing.T) {
	t.Parallel()
	file, secret := filepath.Join(t.TempDir(), "tokens.json"), map[string]string{}
	for _, token := range []access.Token{{Name: "ada", Role: access.Operator}, {Name: "otto", Role: access.Operator}, {Name: "vera", Role: access.Viewer}} {
		made, err := access.OpenTokenFile(file).Create(token)
		if err != nil {
			t.Fatal(err)
		}
		secret[token.Name] = "Bearer " + made
	}
	s := newSystem(t, "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+file, "WATERSHIP_APPROVALS_RULES=[{actions: [discard]}]")
	s.fail(t, orders(2)...)
	get := func(name, path string) document { return s.get(t, path, "Authorization", secret[name]) }
	post := func(name, path string, form url.Values) document {
		return s.do(t, http.MethodPost, path, form, "Content-Type", "application/x-www-form-urlencoded", "Origin", s.url, "Authorization", secret[name])
	}
	get("ada", "/approvals").want(t, http.StatusOK, "No approvals")
	action, form := get("ada", "/failures/discard?q=*").form(t, "Discard 2 failures")
	form.Set("reason", "<b>test</b> data")
	post("ada", action, form).want(t, http.StatusConflict, "discard of 2 messages needs the approval of a second person")
	get("ada", "/replays").link(t, "/approvals")
	viewed := get("vera", "/approvals")
	viewed.want(t, http.StatusOK, "discard of 2 at orders", "waiting", "by ada", "<b>test</b> data")
	viewed.without(t, "Approve, and do it")
	action, form = get("ada", "/approvals").form(t, "Approve, and do it")
	form.Set("decision", "approve")
	post("ada", action, form).want(t, http.StatusForbidden, "a second person has to approve it")
	action, form = get("otto", "/approvals").form(t, "Approve, and do it")
	form.Set("decision", "approve")
	post("otto", action, form).want(t, http.StatusOK, "The discard of ada is done.", "by otto")
	s.await(t, 2, "action: discarded")
	s.await(t, 1, `action: audited and audit.operation: "ask for approval" and user.name: ada`)
	s.await(t, 1, `action: audited and audit.operation: approve and user.name: otto`)
}
