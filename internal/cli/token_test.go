package cli

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTokenCommands(t *testing.T) {
	environ := []string{"WATERSHIP_HTTP_AUTH_TOKENS_FILE=" + filepath.Join(t.TempDir(), "tokens.json")}
	run := func(args ...string) result {
		return call(t.Context(), strings.NewReader(""), environ, append([]string{"token"}, args...)...)
	}
	if got := run("list"); got.code != exitOK || !strings.Contains(got.out+got.err, "there are no tokens") {
		t.Errorf("%+v", got)
	}
	created := run("create", "ada", "--role", "operator", "--bodies", "--queues", "orders*,invoices")
	if created.code != exitOK || !regexp.MustCompile(`^wst_[a-z2-7]+\n$`).MatchString(created.out) {
		t.Fatalf("%+v", created)
	}
	if got := run("create", "ci", "--role", "viewer", "--expires", "0"); got.code != exitOK {
		t.Errorf("%+v", got)
	}
	listed := run("list")
	for _, want := range []string{`ada +operator +yes +20\d\d-.* orders\*, invoices +none`, `ci +viewer +no +never .* all +all`} {
		if !regexp.MustCompile(want).MatchString(listed.out) {
			t.Errorf("no %s in\n%s", want, listed.out)
		}
	}
	if strings.Contains(listed.out, "wst_") {
		t.Errorf("a secret is listed:\n%s", listed.out)
	}
	var list []struct{ Name, Role string }
	if err := json.Unmarshal([]byte(run("list", "-o", "json").out), &list); err != nil || len(list) != 2 || list[0].Role != "operator" {
		t.Errorf("%v, %v", list, err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"create", "ada", "--role", "admin"}, "exists"},
		{[]string{"create", "bob"}, "--role: expected one of the roles viewer, operator, admin"},
		{[]string{"create", "bob", "--role", "root"}, "--role"},
		{[]string{"create", "bob", "--role", "viewer", "--expires", "soon"}, "--expires"},
		{[]string{"create", "bob", "--role", "viewer", "--expires", "-1h"}, "--expires"},
		{[]string{"create", "\x1b[31m", "--role", "viewer"}, "printable"},
		{[]string{"create"}, "the name of the token"},
		{[]string{"revoke", "bob"}, "no token has the name bob"},
	} {
		if got := run(test.args...); got.code == exitOK || !strings.Contains(got.err, test.want) {
			t.Errorf("%q: %+v", test.args, got)
		}
	}
	if got := run("revoke", "ada"); got.code != exitOK {
		t.Errorf("%+v", got)
	}
	if got := run("list"); strings.Contains(got.out, "ada") || !strings.Contains(got.out, "ci") {
		t.Errorf("%+v", got)
	}
	if got := call(t.Context(), strings.NewReader(""), nil, "token", "list"); got.code == exitOK || !strings.Contains(got.err, "http.auth.tokens_file is not set") {
		t.Errorf("%+v", got)
	}
}
