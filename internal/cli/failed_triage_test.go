package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// fail publishes messages of a tenant that fail, until there are so many failures.
func (w withServe) fail(t *testing.T, tenant, count string, want int) {
	t.Helper()
	order := servertest.WriteFile(t, "order.json", `{"order": 1}`)
	w.Must(t, "publish", "--exchange", w.Exchange, "--key", "order.created", "--header", "tenant="+tenant, "--count", count, order)
	w.Eventually(t, "action: poisoned", want)
}

// groups returns the groups that a command lists.
func (w withServe) groups(t *testing.T, args ...string) (found []failures.FailureGroup) {
	t.Helper()
	if err := json.Unmarshal([]byte(w.Must(t, append([]string{"failed", "-o", "json"}, args...)...)), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// A group is assigned, noted, muted, resolved and regressed, by an operator on the servers and by
// another through serve, who see the same.
func TestTriage(t *testing.T) {
	t.Parallel()
	w := newWithServe(t)
	ann, vic := w.token(t, "ann", access.Operator, true), w.token(t, "vic", access.Viewer, true)
	w.fail(t, "bolt", "1", 1)
	w.fail(t, "acme", "2", 3)
	id := w.groups(t)[0].ID
	decide := func(environ []string, want string, args ...string) {
		t.Helper()
		if got := w.through(t, environ, append([]string{"failed"}, args...)...); got.Code != exitOK || !strings.Contains(got.Out, want) {
			t.Fatalf("%q: %+v", args, got)
		}
	}
	decide(ann, "assigned group "+id, "assign", id, "bob")
	decide(nil, "nothing to do: group "+id+" is assigned to bob", "assign", id, "bob")
	decide(nil, "noted group "+id, "note", id, "OPS-12:", "the service refuses")
	decide(ann, "muted group "+id, "mute", id, "--count", "2", "--reason", "expected")
	servertest.WantWords(t, w.Must(t, "failed")+w.Must(t, "failed", "show", id),
		"assignee   bob", "OPS-12: the service refuses", "failures   3", "1 group is muted: --muted shows it", "for 2 more, by ann: expected")
	for _, args := range [][]string{
		{"failed", "--muted"},
		{"failed", "show", id},
		{"failed", "show", id, "-o", "json"},
		{"failed", "show", "nobody"},
		{"failed", "why", id},
		{"failed", "--by", "headers.tenant,queue"},
		{"failed", "--by", "tenant", "-o", "ndjson"},
		{"search", "action: triaged"},
	} {
		direct, viewed := w.Run(t, args...), w.through(t, vic, args...)
		if direct.Out != viewed.Out || direct.Code != viewed.Code {
			t.Errorf("%q: %d, %s%s\nwant %d, %s%s", args, viewed.Code, viewed.Out, viewed.Err, direct.Code, direct.Out, direct.Err)
		}
	}
	if got := w.Must(t, "failed", "--by", "headers.tenant,queue", "-o", "ndjson"); !strings.HasPrefix(got, `{"values":{"headers.tenant":"`) || !strings.Contains(got, `"watership.queue":"`) {
		t.Errorf("%s", got)
	}
	servertest.WantRun(t, w.Run(t, "failed", "--by", "queue,watership.queue"), exitUsage, "watership.queue is given twice")
	servertest.WantRun(t, w.Run(t, "failed", "--by", "queue,"), exitUsage, "expected fields, such as headers.tenant,queue")
	servertest.WantWords(t, w.Must(t, "failed", "--by", "headers.tenant"), "headers.tenant", "2  acme", "1  bolt", "3 failures in 2 groups")
	for until, flags := range map[time.Duration][]string{
		2 * time.Hour: {"--until", "now+2h"}, time.Hour: {"--until", time.Now().Add(time.Hour).Format(time.DateTime)}, 48 * time.Hour: {"--for", "2d"},
	} {
		decide(ann, "muted group "+id, append([]string{"mute", id, "--reason", "later"}, flags...)...)
		if m := w.groups(t, "--muted")[0].Muted; m == nil || (time.Until(*m.Until)-until).Abs() > 10*time.Minute {
			t.Errorf("muted by %q: %+v", flags, m)
		}
	}
	decide(nil, "unmuted group "+id, "unmute", id)
	decide(ann, "unassigned group "+id, "unassign", id)
	decide(nil, "discarded 1 failure, resolved 0 groups\nopen, with other failures: "+id, "resolve", "--query", "headers.tenant: bolt", "--reason", "tests", "--yes")
	decide(ann, "discarded 2 failures, resolved 1 group", "resolve", id, "--reason", "fixed", "--yes")
	servertest.WantRun(t, w.through(t, ann, "failed", "resolve", id, "--reason", "again", "--yes"), exitFailed, "no unresolved failure matches")
	w.fail(t, "acme", "1", 4)
	servertest.WantWords(t, w.Must(t, "failed"), "regressed")
	servertest.WantRun(t, w.through(t, vic, "failed", "assign", id, "eve"), exitFailed, "role viewer")
	w.decidesWhileFailuresArrive(t, id)
}

// decidesWhileFailuresArrive resolves and discards what was found through the server, after other
// failures came.
func (w withServe) decidesWhileFailuresArrive(t *testing.T, id string) {
	t.Helper()
	secret, err := access.OpenTokenFile(w.tokens).Create(access.Token{Name: "ida", Role: access.Operator})
	if err != nil {
		t.Fatal(err)
	}
	sys, err := client.Connect(t.Context(), client.Config{URL: "http://" + w.Listen, Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	for n, run := range []func(a action) error{
		func(a action) error {
			r := resolve{action: a, groups: []string{id}}
			return r.run(t.Context(), sys)
		},
		func(a action) error { return a.discard(t.Context(), sys, "*") },
	} {
		var shown strings.Builder
		preview := writerFunc(func(text []byte) (int, error) {
			if shown.Len() == 0 {
				w.fail(t, "acme", "1", 5+n)
			}
			return shown.Write(text)
		})
		if err := run(action{Streams: terminal.Streams{Out: preview}, yes: true, reason: "late"}); err != nil || !strings.Contains(shown.String(), "discarded 1 failure") {
			t.Fatalf("%s, %v", shown.String(), err)
		}
		if g := w.groups(t); len(g) != 1 || g[0].Count != 1 {
			t.Errorf("%+v", g)
		}
	}
}

// writerFunc is a function that takes what is written.
type writerFunc func(text []byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

func TestTriageMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		"--reason is required":        {"failed", "mute", "abc", "--for", "1h"},
		"expected --for, --until or":  {"failed", "mute", "abc", "--reason", "x"},
		"--for must be more than 0":   {"failed", "mute", "abc", "--reason", "x", "--for", "0s"},
		"--count must be more than 0": {"failed", "mute", "abc", "--reason", "x", "--count", "0", "--for", "1h"},
		"--by: expected fields":       {"failed", "--by", ","},
		"expected a time such as":     {"failed", "mute", "abc", "--reason", "x", "--until", "tomorrow"},
		"expected a duration such as": {"failed", "mute", "abc", "--reason", "x", "--for", "-2h"},
		"a time that has passed":      {"failed", "mute", "abc", "--reason", "x", "--until", "2020-01-01T00:00:00Z"},
		"a group and a name":          {"failed", "assign", "abc"},
		"expected a group and a text": {"failed", "note", "abc"},
		"expected groups, --query or": {"failed", "resolve", "--reason", "x"},
		"there is no terminal to ask": {"failed", "resolve", "abc", "--reason", "x"},
	} {
		if got := call(t.Context(), strings.NewReader(""), nil, args...); got.Code != exitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%q: %+v", args, got)
		}
	}
}
