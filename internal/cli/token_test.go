package cli

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/server/servertest"
)

func TestTokenCommands(t *testing.T) {
	environ := []string{"WATERSHIP_HTTP_AUTH_TOKENS_FILE=" + filepath.Join(t.TempDir(), "tokens.json")}
	run := func(args ...string) servertest.Result {
		return call(t.Context(), strings.NewReader(""), environ, append([]string{"token"}, args...)...)
	}
	if got := run("list"); got.Code != exitOK || !strings.Contains(got.Out+got.Err, "there are no tokens") {
		t.Errorf("%+v", got)
	}
	created := run("create", "ada", "--role", "operator", "--bodies", "--queues", "orders*,invoices")
	if created.Code != exitOK || !regexp.MustCompile(`^wst_[a-z2-7]+\n$`).MatchString(created.Out) {
		t.Fatalf("%+v", created)
	}
	if got := run("create", "ci", "--role", "viewer", "--expires", "0"); got.Code != exitOK {
		t.Errorf("%+v", got)
	}
	if got := run("create", "eve", "--role", "viewer", "--bodies", "--body-reasons", "--originals"); got.Code != exitOK {
		t.Errorf("%+v", got)
	}
	listed := run("list")
	for _, want := range []string{`ada +operator +yes +no +20\d\d-.* orders\*, invoices +none`, `ci +viewer +no +no +never .* all +all`, `eve +viewer +with reasons +yes +20`} {
		if !regexp.MustCompile(want).MatchString(listed.Out) {
			t.Errorf("no %s in\n%s", want, listed.Out)
		}
	}
	if strings.Contains(listed.Out, "wst_") {
		t.Errorf("a secret is listed:\n%s", listed.Out)
	}
	var list []struct{ Name, Role string }
	if err := json.Unmarshal([]byte(run("list", "-o", "json").Out), &list); err != nil || len(list) != 3 || list[0].Role != "operator" {
		t.Errorf("%v, %v", list, err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"create", "ada", "--role", "admin"}, "exists"},
		{[]string{"create", "bob"}, "--role: expected one of the roles viewer, operator, admin"},
		{[]string{"create", "bob", "--role", "root"}, "--role"},
		{[]string{"create", "bob", "--role", "viewer", "--body-reasons"}, "--body-reasons needs --bodies"},
		{[]string{"create", "bob", "--role", "viewer", "--expires", "soon"}, "--expires"},
		{[]string{"create", "bob", "--role", "viewer", "--expires", "-1h"}, "--expires"},
		{[]string{"create", "\x1b[31m", "--role", "viewer"}, "printable"},
		{[]string{"create"}, "the name of the token"},
		{[]string{"revoke", "bob"}, "no token has the name bob"},
	} {
		if got := run(test.args...); got.Code == exitOK || !strings.Contains(got.Err, test.want) {
			t.Errorf("%q: %+v", test.args, got)
		}
	}
	if got := run("revoke", "ada"); got.Code != exitOK {
		t.Errorf("%+v", got)
	}
	if got := run("list"); strings.Contains(got.Out, "ada") || !strings.Contains(got.Out, "ci") {
		t.Errorf("%+v", got)
	}
	if got := call(t.Context(), strings.NewReader(""), nil, "token", "list"); got.Code == exitOK || !strings.Contains(got.Err, "http.auth.tokens_file is not set") {
		t.Errorf("%+v", got)
	}
}
