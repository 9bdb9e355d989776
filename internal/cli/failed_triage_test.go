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
	groups := w.groups(t)
	if len(groups) != 1 || groups[0].Count != 3 || len(groups[0].ID) != 8 {
		t.Fatalf("%+v", groups)
	}
	id := groups[0].ID
	same := func(want ...string) {
		t.Helper()
		for _, args := range [][]string{
			{"failed"},
			{"failed", "-o", "json"},
			{"failed", "--muted"},
			{"failed", "show", id},
			{"failed", "show", id, "-o", "json"},
			{"failed", "show", "nobody"},
			{"failed", "why", id},
			{"failed", "why", "nobody"},
			{"failed", "--by", "headers.tenant,queue"},
			{"failed", "--by", "tenant", "-o", "ndjson"},
			{"failed", "--by", "error.message"},
			{"search", "action: triaged"},
			{"search", "action: triaged", "--fields", "user.name,event.reason,watership.triage.decision,watership.error_group,error.type", "-o", "csv"},
		} {
			direct, viewed := w.Run(t, args...), w.through(t, vic, args...)
			if direct.Out != viewed.Out || direct.Code != viewed.Code {
				t.Errorf("%q: %d, %s%s\nwant %d, %s%s", args, viewed.Code, viewed.Out, viewed.Err, direct.Code, direct.Out, direct.Err)
			}
		}
		servertest.WantWords(t, w.Must(t, "failed")+w.Must(t, "failed", "show", id), want...)
	}
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
	same("assignee   bob", "OPS-12: the service refuses", "failures   3", "1 group is muted: --muted shows it", "for 2 more, by ann: expected")
	if got := w.Must(t, "failed", "--by", "headers.tenant,queue", "-o", "ndjson"); !strings.HasPrefix(got, `{"values":{"headers.tenant":"`) || !strings.Contains(got, `"watership.queue":"`) {
		t.Errorf("%s", got)
	}
	servertest.WantRun(t, w.Run(t, "failed", "--by", "queue,watership.queue"), exitUsage, "watership.queue is given twice")
	servertest.WantRun(t, w.Run(t, "failed", "--by", "queue,"), exitUsage, "expected fields, such as headers.tenant,queue")
	servertest.WantWords(t, w.Must(t, "failed", "--by", "headers.tenant"), "headers.tenant", "2  acme", "1  bolt", "3 failures in 2 groups")
	decide(ann, "muted group "+id, "mute", id, "--until", "now+2h", "--reason", "later")
	if m := w.groups(t, "--muted")[0].Muted; m == nil || time.Until(*m.Until).Round(time.Hour) != 2*time.Hour {
		t.Errorf("muted up to now+2h: %+v", m)
	}
	decide(ann, "muted group "+id, "mute", id, "--until", time.Now().Add(time.Hour).Format(time.DateTime), "--reason", "later")
	if m := w.groups(t, "--muted")[0].Muted; m == nil || time.Until(*m.Until).Round(time.Hour) != time.Hour {
		t.Errorf("muted up to a local time: %+v", m)
	}
	decide(ann, "muted group "+id, "mute", id, "--for", "2d", "--reason", "later")
	if m := w.groups(t, "--muted")[0].Muted; m == nil || time.Until(*m.Until).Round(time.Hour) != 48*time.Hour {
		t.Errorf("muted for two days: %+v", m)
	}
	decide(nil, "unmuted group "+id, "unmute", id)
	decide(nil, "nothing to do: group "+id+" is not muted", "unmute", id)
	w.resolves(t, ann, id)
	if g := w.groups(t); len(g) != 1 || !g[0].Regressed || g[0].Count != 1 || g[0].Resolved == nil || g[0].Resolved.Reason != "fixed" {
		t.Errorf("after it was resolved and failed again: %+v", g)
	}
	decide(ann, "unassigned group "+id, "unassign", id)
	decide(ann, "nothing to do: group "+id+" has no assignee", "unassign", id)
	same("regressed")
	if n := strings.Count(w.Must(t, "search", "action: triaged", "-o", "ndjson"), "\n"); n != 9 {
		t.Errorf("%d events of decisions, want 9: those that change nothing have none", n)
	}
	if got := w.through(t, vic, "failed", "assign", id, "eve"); got.Code == exitOK || !strings.Contains(got.Err, "role viewer") {
		t.Errorf("%+v", got)
	}
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

// resolves resolves some failures of a group, which leaves it open, then the others, and
// lets it fail again.
func (w withServe) resolves(t *testing.T, operator []string, id string) {
	t.Helper()
	got := w.Run(t, "failed", "resolve", "--query", "headers.tenant: bolt", "--reason", "tests", "--yes") // newer ones stay
	if got.Code != exitOK || !strings.Contains(got.Out, "discarded 1 failure, resolved 0 groups") || !strings.Contains(got.Out, "open, with other failures: "+id) {
		t.Fatalf("%+v", got)
	}
	if g := w.groups(t); len(g) != 1 || g[0].Regressed || g[0].Count != 2 || g[0].Resolved != nil {
		t.Fatalf("%+v", g)
	}
	got = w.through(t, operator, "failed", "resolve", id, "--reason", "fixed", "--yes")
	if got.Code != exitOK || !strings.Contains(got.Out, "2  "+id+"  queue ") || !strings.Contains(got.Out, "discarded 2 failures, resolved 1 group") {
		t.Fatalf("%+v", got)
	}
	if g := w.groups(t, "--muted"); len(g) != 0 {
		t.Fatalf("%+v", g)
	}
	want := w.Run(t, "failed", "resolve", id, "--reason", "again", "--yes")
	if got := w.through(t, operator, "failed", "resolve", id, "--reason", "again", "--yes"); got != want || !strings.Contains(got.Err, "no unresolved failure matches") {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	w.fail(t, "acme", "1", 4)
}

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
