package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// withServe is an installation with a running serve that has tokens, and with failures.
type withServe struct {
	*servertest.Installation
	*servertest.Process
	tokens string
}

func newWithServe(t *testing.T, settings ...string) withServe {
	t.Helper()
	failing := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusUnprocessableEntity })
	i := servertest.InstallEmbedded(t, failing.URL)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	i.Environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens, "WATERSHIP_STREAMS=[{id: 'order-{body.json.order}', version: '{headers.n}'}]")
	i.Environ = append(i.Environ, settings...)
	w := withServe{i, nil, tokens}
	w.token(t, "first", access.Viewer, false) // before serve, so that it has a file
	w.Process = i.Serve(t)
	return w
}

// token returns the environment of commands that use the server with a new token.
func (w withServe) token(t *testing.T, name string, role access.Role, bodies bool) []string {
	t.Helper()
	secret, err := access.OpenTokenFile(w.tokens).Create(access.Token{Name: name, Role: role, Bodies: bodies})
	if err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "WATERSHIP_SERVER=http://"+w.Listen, "WATERSHIP_TOKEN_FILE="+servertest.WriteFile(t, "token", secret))
}

// through runs a command that knows the server and a token alone.
func (w withServe) through(t *testing.T, environ []string, args ...string) servertest.Result {
	t.Helper()
	i := *w.Installation
	i.Server = environ
	return i.Run(t, args...)
}

// Commands print the same through the API of serve as on the servers themselves, for a
// viewer and for an operator.
func TestCommandsThroughServe(t *testing.T) {
	t.Parallel()
	w := newWithServe(t)
	operator, viewer := w.token(t, "ann", access.Operator, true), w.token(t, "vic", access.Viewer, true)
	order := servertest.WriteFile(t, "order.json", `{"order": 1}`)
	for _, environ := range [][]string{nil, operator} { // the one publishes directly
		published := w.through(t, environ, "publish", "--exchange", w.Exchange, "--key", "order.created", "--header", "tenant=acme", "--header", "n:int=7", "--correlation-id", "c", "--count", "3", order)
		if published.Code != exitOK || published.Out != "published 3 messages\n" {
			t.Fatalf("%+v", published)
		}
	}
	w.Eventually(t, "action: poisoned", 6)
	w.Eventually(t, "action: published", 6)
	id := w.Search(t, "action: poisoned")[0]
	const all = "action: (published or poisoned)" // without what the commands themselves add
	same := [][]string{
		{"search", all},
		{"search", "action: poisoned", "--since", "1h"},
		{"search", all, "-o", "json"},
		{"search", all, "-o", "ndjson", "--limit", "0"},
		{"search", all, "-o", "csv"},
		{"search", all, "--limit", "2"},
		{"search", all, "--fields", "@timestamp,headers.tenant,body.text", "-o", "csv"},
		{"search", "*", "--to", "2020-01-01"},
		{"search", "acme", "--since", "1h"},
		{"search", all, "--fields", "body.json.order", "-o", "ndjson"},
		{"search", all, "--count"},
		{"search", all, "--count", "-o", "json"},
		{"search", all, "--by", "action"},
		{"search", all, "--by", "queue", "-o", "json"},
		{"search", all, "--by", "@timestamp"},
		{"search", all, "--by", "@timestamp", "-o", "csv"},
		{"search", all, "--from", "now-1d/d", "--to", "now+1d/d", "--count"},
		{"search", "headers.nothing: 1", "--count"},
		{"search", "action: replayed"},
		{"search", "action: replayed", "-o", "json"},
		{"search", "queue:"},
		{"search", "foo.bar: 1"},
		{"search", "--by", "error.message"},
		{"show", id.Fingerprint},
		{"show", id.EventID},
		{"show", "nobody"},
		{"explain", id.Fingerprint},
		{"explain", id.EventID, "-o", "json"},
		{"explain", id.Fingerprint, "--queue", "nobody"},
		{"show", "--raw", id.Message},
		{"show", "--raw", id.Fingerprint},
		{"failed"},
		{"failed", "-o", "json"},
		{"failed", "-o", "ndjson"},
		{"failed", "queue: nobody"},
		{"failed", "why", id.Fingerprint},
		{"failed", "why", "nobody"},
		{"stream", "order-1"},
		{"stream", "order-1", "-o", "json"},
		{"stream", "order-1", "-o", "ndjson", "--limit", "4"},
		{"stream", "order-1", "--check"},
		{"stream", "nobody"},
		{"export", all},
		{"export", "action: poisoned", "--limit", "2"},
		{"export", "action: replayed"},
		{"jobs", "list"},
		{"jobs", "list", "-o", "json"},
		{"jobs", "show", "nobody"},
		{"routes"},
		{"routes", "-o", "json"},
		{"doctor", "--sizing", "-o", "json"},
	}
	for _, args := range same {
		want := w.Run(t, args...)
		for name, environ := range map[string][]string{"operator": operator, "viewer": viewer} {
			got := w.through(t, environ, args...)
			if got.Out != want.Out || got.Code != want.Code {
				t.Errorf("%s: watership %s: exit code %d, want %d\n%s\nwant\n%s", name, strings.Join(args, " "), got.Code, want.Code, got.Out+got.Err, want.Out+want.Err)
			}
		}
	}
	testFlows(t, w, w.token(t, "ada", access.Admin, true))
	testActions(t, w, operator)
}

// testFlows compares the preview, the guard of the number and the JSON of each command that
// changes what it finds. None of them changes anything.
func testFlows(t *testing.T, w withServe, admin []string) {
	ids := servertest.WriteFile(t, "flow.txt", w.Search(t, "action: poisoned")[0].EventID+"\nnobody\n")
	group := regexp.MustCompile(`"id": "([a-z0-9]+)"`).FindStringSubmatch(w.Run(t, "failed", "resolve", "--query", "*", "--dry-run", "-o", "json").Out)
	if group == nil {
		t.Fatal("resolve shows no group")
	}
	for _, test := range []struct {
		command string
		code    int
		text    string // in the output or in the error
	}{
		{"failed discard * --dry-run", exitOK, "6  failed at queue"},
		{"failed discard * --dry-run -o json", exitOK, `"matched": 6`},
		{"failed discard --ids IDS --dry-run", exitOK, "not found: nobody"},
		{"failed discard * --reason x --yes --expect 7", exitFailed, "6 failures match, 7 expected: nothing was changed"},
		{"failed discard * --reason x --yes --expect 7 -o json", exitFailed, `"matched": 6`},
		{"failed discard * --reason x --expect 6", exitUsage, "there is no terminal to ask"},
		{"failed discard message.id:nobody --dry-run --expect 0", exitOK, ""},
		{"failed resolve GROUP --dry-run", exitOK, "6  GROUP  queue"},
		{"failed resolve --ids IDS --dry-run -o json", exitOK, `"matched": 1`},
		{"failed resolve GROUP --reason x --yes --expect 5", exitFailed, "6 failures match, 5 expected: nothing was changed"},
		{"waiting now * --dry-run --expect 0 -o json", exitOK, `"matched": 0`},
		{"waiting postpone * --for 1h --dry-run", exitFailed, "no waiting message matches"},
		{"waiting cancel * --reason x --yes --expect 1", exitFailed, "0 messages match, 1 expected: nothing was changed"},
		{"waiting cancel --ids IDS --dry-run --expect 0", exitOK, "nobody"},
		{"replay --ids IDS --dry-run", exitOK, "not found: nobody"},
		{"failed retry --ids IDS --dry-run", exitOK, "not found: nobody"},
		{"quarantine rewrite --ids IDS --dry-run", exitOK, "not found: nobody"},
		{"quarantine list", exitOK, "nothing found"},
		{"quarantine rewrite --dry-run", exitOK, "0 events to write again"},
		{"quarantine rewrite --dry-run -o json", exitOK, `"left_out": {}`},
		{"replay action:poisoned --dry-run -o json", exitOK, `"matched": 6`},
		{"replay action:poisoned --to-failed-queue --yes --expect 7 -o json", exitFailed, "6 messages match, 7 expected: nothing was changed"},
		{"failed retry queue:nobody --dry-run --expect 0 -o json", exitOK, `"matched": 0`},
		{"routes pause --all --dry-run", exitOK, "1 route to pause"},
		{"routes pause QUEUE --dry-run -o json", exitOK, `"matched": 1`},
		{"routes pause --all --reason x --expect 2", exitFailed, "1 route matches, 2 expected: nothing was changed"},
		{"routes resume QUEUE --dry-run", exitOK, "0 routes to resume"},
		{"routes add QUEUE --dry-run -o json", exitOK, `"digest": "`},
		{"routes add QUEUE --dry-run --expect 1", exitOK, "QUEUE"},
		{"routes add QUEUE --yes --expect 2", exitFailed, "1 queue matches, 2 expected: nothing was changed"},
		{"routes add QUEUE --yes --digest another", exitFailed, "and another was expected: nothing was changed"},
		{"routes remove QUEUE --dry-run", exitFailed, "there is no policy"},
		{"adopt QUEUE --as spring --dry-run -o json", exitOK, `"matched": 0`},
		{"adopt QUEUE --as spring --yes --expect 1", exitFailed, "0 messages match, 1 expected: nothing was changed"},
		{"quarantine rewrite --yes --expect 1", exitFailed, "0 events match, 1 expected: nothing was changed"},
	} {
		args := strings.Fields(strings.NewReplacer("IDS", ids, "GROUP", group[1], "QUEUE", w.Queue).Replace(test.command))
		want, got := w.Run(t, args...), w.through(t, admin, args...)
		for _, r := range []*servertest.Result{&want, &got} { // audit events came in between
			r.Out = regexp.MustCompile(`"up_to": \d+`).ReplaceAllString(r.Out, `"up_to": 7`)
		}
		if got != want {
			t.Errorf("%s (-directly +through the server):\n%s", test.command, cmp.Diff(want, got))
		}
		if text := strings.NewReplacer("GROUP", group[1], "QUEUE", w.Queue).Replace(test.text); got.Code != test.code || !strings.Contains(got.Out+got.Err, text) {
			t.Errorf("%s: %+v\nwant the exit code %d and %q", test.command, got, test.code, text)
		}
	}
	for _, command := range []string{
		"failed discard *", "failed resolve GROUP", "waiting now *", "quarantine rewrite", "replay *", "failed retry *",
		"routes pause a", "routes resume a", "routes add a", "routes remove a", "adopt a --as spring",
	} {
		args := strings.Fields(command + " --dry-run --operator bob")
		if got := w.through(t, admin, args...); got.Code != exitUsage || !strings.Contains(got.Err, "--operator cannot be combined with --server") {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

// testActions compares what changes something.
func testActions(t *testing.T, w withServe, operator []string) {
	plan := []string{"replay", "action: poisoned", "--to-failed-queue", "--set-header", "again=yes", "--drop-reply-to", "--limit", "2"}
	for _, more := range [][]string{{"--dry-run"}, {"--yes", "--expect", "7"}} {
		args := append(slices.Clone(plan), more...)
		want, got := w.Run(t, args...), w.through(t, operator, args...)
		if got != want {
			t.Errorf("%q: %+v\nwant %+v", args, got, want)
		}
	}
	sent := w.through(t, operator, append(slices.Clone(plan), "--yes", "--reason", "why not")...)
	job := regexp.MustCompile(`sent 2 of 2, job (\w+)\n`).FindStringSubmatch(sent.Out)
	if sent.Code != exitOK || job == nil {
		t.Fatalf("%+v", sent)
	}
	for _, args := range [][]string{{"jobs", "show", job[1]}, {"jobs", "show", job[1], "-o", "json"}, {"jobs", "list"}, {"jobs", "list", "-o", "ndjson"}} {
		want, got := w.Run(t, args...), w.through(t, operator, args...)
		if got != want || !strings.Contains(got.Out, job[1]) {
			t.Errorf("%q: %+v\nwant %+v", args, got, want)
		}
	}
	if got := w.Run(t, "jobs", "show", job[1]); !strings.Contains(got.Out, "operator     ann\n") || !strings.Contains(got.Out, "why not") {
		t.Errorf("the operator is not the name of the token:\n%s", got.Out)
	}
	w.Eventually(t, "action: poisoned and headers.again: yes", 2)
	exported := servertest.WriteFile(t, "all.ndjson", w.through(t, operator, "export", "action: published and routing_key: order.created", "--limit", "2").Out)
	if got := w.through(t, operator, "publish", "--ndjson", "--key", "order.again", exported); got.Out != "published 2 messages\n" {
		t.Errorf("%+v", got)
	}
	for _, e := range w.Eventually(t, "action: published and routing_key: order.again", 2) {
		if e.Envelope.Headers["n"] != int64(7) || e.Envelope.Properties.CorrelationID != "c" || string(e.Envelope.Body) != `{"order": 1}` {
			t.Errorf("another message was published: %+v", e.Envelope)
		}
	}
	w.Eventually(t, "action: poisoned and routing_key: order.again", 2)
	if got := w.through(t, operator, "failed", "discard", "routing_key: order.again", "--reason", "tests", "--yes"); got.Code != exitOK || !strings.Contains(got.Out, "discarded 2 failures\n") {
		t.Errorf("%+v", got)
	}
	large := strings.Repeat("0123456789", 300_000)
	if got := w.through(t, operator, "publish", "--exchange", w.Exchange, "--key", "order.large", "--count", "2", servertest.WriteFile(t, "large.txt", large)); got.Out != "published 2 messages\n" {
		t.Errorf("%+v", got)
	}
	for _, e := range w.Eventually(t, "action: published and routing_key: order.large", 2) {
		if string(e.Envelope.Body) != large {
			t.Errorf("a body of %d bytes was published", len(e.Envelope.Body))
		}
	}
	for _, args := range [][]string{{"stream", "replay", "order-1", "--dry-run"}, {"stream", "replay", "order-1", "--to-failed-queue", "--dry-run"}} {
		want, got := w.Run(t, args...), w.through(t, operator, args...)
		if got != want || got.Code != exitOK || !strings.Contains(got.Out, " to send, ") {
			t.Errorf("%q: %+v\nwant %+v", args, got, want)
		}
	}
	if got := w.Run(t, "failed", "discard", "headers.again: yes", "--reason", "tests", "--operator", "bob", "--yes"); !strings.Contains(got.Out, "discarded 2 failures\n") {
		t.Errorf("%+v", got)
	}
	w.Eventually(t, `action: discarded and error.message: "tests (bob)"`, 2)
	again := w.Run(t, "failed", "retry", "routing_key: order.created", "--canary", "0", "--limit", "1", "--reason", "why", "--operator", "bob", "--yes", "-o", "json")
	var started replays.Job
	if err := json.Unmarshal([]byte(again.Out), &started); err != nil || started.Operator != "bob" || started.Record.Sent != 1 {
		t.Errorf("%+v, %v", again, err)
	}
	ids := servertest.WriteFile(t, "ids.txt", "nobody\n")
	want := w.Run(t, "failed", "discard", "--ids", ids, "--reason", "x", "--yes")
	if got := w.through(t, operator, "failed", "discard", "--ids", ids, "--reason", "x", "--yes"); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if got := w.through(t, operator, "replay", "*", "--dry-run", "--operator", "bob"); got.Code != exitUsage || !strings.Contains(got.Err, "--operator cannot be combined with --server") {
		t.Errorf("%+v", got)
	}
	if got := w.through(t, operator, "version"); !strings.Contains(got.Out, "at http://"+w.Listen+", used as ann with the role operator\n") {
		t.Errorf("%+v", got)
	}
	if got := w.through(t, operator, "doctor"); !strings.Contains(got.Out, "ok       broker") || !strings.Contains(got.Out, "warning") {
		t.Errorf("%+v", got)
	}
}

// A query in Elasticsearch's language goes to the server, together with one in KQL.
func TestDSLThroughServer(t *testing.T) {
	t.Parallel()
	a := newSeeded(t)
	s := serveAPI(t, config.Sources{Environ: a.environ[:2]})
	a.keep(t, a.event(1, schemas.Published), a.event(2, schemas.Poisoned), a.event(3, schemas.Poisoned))
	environ := s.environ(t, access.Token{Name: "vic", Role: access.Viewer, Bodies: true})
	dsl := servertest.WriteFile(t, "query.json", `{"query":{"term":{"event.action":"poisoned"}}}`)
	for _, args := range [][]string{
		{"search", "--dsl", dsl},
		{"search", "message.id: m-3", "--dsl", dsl, "--since", "900d", "-o", "json"},
		{"failed", "--dsl", dsl},
		{"search", "--dsl", dsl, "--count"},
		{"export", "*", "--dsl", dsl},
	} {
		want := a.call(t, args...)
		if got := call(t.Context(), strings.NewReader(""), environ, args...); got != want || got.Code != exitOK {
			t.Errorf("%q: %+v\nwant %+v", args, got, want)
		}
	}
}

// A shell is offered the same through the API.
func TestCompletionThroughServer(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t, "WATERSHIP_INDEX_LABELS=tenant", "WATERSHIP_TAP_EXCHANGES=[{name: shop, type: topic}]")
	s := serveAPI(t, config.Sources{Environ: slices.DeleteFunc(slices.Clone(a.environ), func(v string) bool { return v == "TZ=UTC" })})
	a.keep(t, a.event(1, schemas.Published), a.event(2, schemas.Poisoned, poisonedAt("orders", "timeout")))
	keepPaused(t, a, "job-1", "job-1")
	environ := s.environ(t, access.Token{Name: "vic", Role: access.Viewer})
	for _, args := range [][]string{
		{"search", "act"},
		{"search", "action: po"},
		{"search", "message.id: "},
		{"search", "labels."},
		{"search", "--by", "watership.queu"},
		{"show", "m-"},
		{"replay", "--group", ""},
		{"replay", "--to-exchange", ""},
		{"jobs", "show", ""},
	} {
		args = append([]string{"__complete"}, args...)
		var want, got servertest.Result
		if !rabbittest.Poll(rabbittest.Timeout, func() bool { // a busy server offers nothing in time
			want, got = a.call(t, args...), call(t.Context(), strings.NewReader(""), environ, args...)
			return got.Out == want.Out && strings.Contains(got.Out, "\n:")
		}) {
			t.Errorf("%q: %+v\nwant %+v", args, got, want)
		}
	}
}

// A viewer without the permission to read bodies sees everything else, and is told.
func TestViewerThroughServer(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	s := serveAPI(t, config.Sources{Environ: a.environ[:2]})
	a.keep(t, a.event(1, schemas.Published), a.event(2, schemas.Poisoned))
	a.environ = s.environ(t, access.Token{Name: "vic", Role: access.Viewer})
	for _, test := range []struct {
		args      []string
		code      int
		has, says string
	}{
		{[]string{"search"}, exitOK, "m-1", ""},
		{[]string{"search", "*", "--count"}, exitOK, "2", ""},
		{[]string{"search", "-o", "ndjson"}, exitOK, `"message":{"id":"m-1"`, "the token may not read bodies: they are left out"},
		{[]string{"search", "acme"}, exitFailed, "", "searches all fields, bodies among them"},
		{[]string{"search", "--fields", "body.text"}, exitFailed, "", "bodies"},
		{[]string{"show", "m-2"}, exitOK, "the token may not read bodies", ""},
		{[]string{"show", "m-2", "--raw"}, exitFailed, "", "bodies"},
		{[]string{"failed", "edit", "m-2", "--print"}, exitFailed, "", "the token may not read bodies, so no message can be edited"},
		{[]string{"export", "*"}, exitFailed, "", "bodies"},
		{[]string{"failed"}, exitOK, "1 failure in 1 group", ""},
		{[]string{"failed", "discard", "*", "--reason", "x", "--yes"}, exitFailed, "", "vic has the role viewer, and this needs operator\n  Ask an administrator"},
		{[]string{"replay", "*", "--yes"}, exitFailed, "", "vic has the role viewer, and this needs operator"},
		{[]string{"replay", "*", "--dry-run"}, exitFailed, "", "vic has the role viewer, and this needs operator"},
		{[]string{"publish", "--exchange", "shop"}, exitFailed, "", "vic has the role viewer, and this needs operator"},
		{[]string{"jobs", "cancel", "nobody"}, exitFailed, "", "vic has the role viewer, and this needs operator"},
		{[]string{"jobs", "resume", "nobody", "--yes"}, exitFailed, "", "there is no job"},
	} {
		got := a.call(t, test.args...)
		if got.Code != test.code || !strings.Contains(got.Out, test.has) || !strings.Contains(got.Err, test.says) || test.says == "" && got.Err != "" {
			t.Errorf("%q: %+v", test.args, got)
		}
		if strings.Contains(got.Out, `"order"`) || strings.Contains(got.Out, `\"order\"`) {
			t.Errorf("%q prints a body:\n%s", test.args, got.Out)
		}
	}
}

// A command asks the server once for its version, its settings and the caller's permissions.
func TestVersionIsAskedOnce(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	s := serveAPI(t, config.Sources{Environ: a.environ[:2]})
	a.keep(t, a.event(1, schemas.Published), a.event(2, schemas.Poisoned, at("orders")))
	var asked atomic.Int32
	api := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/version" {
			asked.Add(1)
		}
		api.ServeHTTP(w, r)
	})
	a.environ = s.environ(t, access.Token{Name: "ada", Role: access.Operator, Bodies: true})
	for _, args := range [][]string{
		{"version"},
		{"search", "-o", "ndjson"},
		{"show", "m-2"},
		{"failed", "edit", "m-2", "--print"},
	} {
		asked.Store(0)
		a.must(t, args...)
		if n := asked.Load(); n != 1 {
			t.Errorf("%q asked %d times", args, n)
		}
	}
}

// Each problem with the server has one short error that says what to do, and never the
// token.
func TestServerMistakes(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	s := serveAPI(t, config.Sources{Environ: a.environ[:2]})
	expired := s.environ(t, access.Token{Name: "old", Role: access.Viewer, Expires: time.Now().Add(-time.Hour)})
	valid := s.environ(t, access.Token{Name: "ada", Role: access.Viewer})
	file := strings.TrimPrefix(valid[1], "WATERSHIP_TOKEN_FILE=")
	secret, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var leaked atomic.Bool
	other := handle(t, func(http.ResponseWriter, *http.Request) { leaked.Store(true) })
	answer := func(status int, kind, text string) string {
		return handle(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		})
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	open := servertest.WriteFile(t, "token", string(secret))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	closed := "http://" + rabbittest.FreeAddress(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--server", s.URL, "--token-file", file}, ""},
		{[]string{"--server", s.URL + "/api/v1/", "--token-file", file}, ""},
		{[]string{"--server", s.URL, "--token-file", open}, "every user of this machine may read " + open + ": chmod 600"},
		{[]string{"--server", s.URL}, "--token-file FILE"},
		{[]string{"--server", s.URL, "--token-file", strings.TrimPrefix(expired[1], "WATERSHIP_TOKEN_FILE=")}, "the token old expired at"},
		{[]string{"--server", s.URL, "--token-file", servertest.WriteFile(t, "wrong", "wst_abc")}, "checksum"},
		{[]string{"--server", s.URL, "--token-file", servertest.WriteFile(t, "empty", "")}, "is empty"},
		{[]string{"--server", s.URL, "--token-file", servertest.WriteFile(t, "lines", "a\nb")}, "expected a token on one line"},
		{[]string{"--server", s.URL, "--token-file", "/no/such"}, "token_file: /no/such: no such file"},
		{[]string{"--server", closed, "--token-file", file}, "server " + closed + " cannot be reached"},
		{[]string{"--server", closed, "--token-file", file}, "\n  check --server, and that watership serve runs there"},
		{[]string{"--server", answer(502, "text/html", "<html>Bad gateway</html>"), "--token-file", file}, "502 Bad Gateway with text/html, which is not the API of Watership\n  a proxy answers in its place"},
		{[]string{"--server", answer(200, "text/html", "<html>Welcome</html>"), "--token-file", file}, "200 OK with text/html, which is not the API of Watership\n  check --server"},
		{[]string{"--server", answer(200, "application/json", `{"version":"v0.1"}`), "--token-file", file}, "version v0.1 of the server is older than this command"},
		{[]string{"--server", answer(200, "application/json", `{"version":"v9","documents":99}`), "--token-file", file}, "version v9 of the server is newer than this command"},
		{[]string{"--server", handle(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) }), "--token-file", file}, "redirects to " + other + ", which does not get the token"},
		{[]string{"--server", "http://watership.example", "--token-file", file}, "others in the network could read the token"},
		{[]string{"--server", "http://ada:secret@localhost"}, "without a user"},
		{[]string{"--server", secure.URL, "--token-file", file}, "name its certificate authorities with --server-ca"},
		{[]string{"--server", secure.URL, "--token-file", file, "--server-ca", pemOf(t, secure)}, "404 Not Found with text/plain, which is not the API"},
		{[]string{"--server", "https" + strings.TrimPrefix(s.URL, "http"), "--token-file", file}, "use http://"},
	} {
		got := call(t.Context(), strings.NewReader(""), nil, append([]string{"search"}, test.args...)...)
		if wantFailure := test.want != "" && !strings.Contains(test.want, "chmod"); (got.Code != exitOK) != wantFailure || !strings.Contains(got.Err, test.want) || test.want == "" && got.Err != "" {
			t.Errorf("%q: %+v\nwant %s", test.args, got, test.want)
		}
		if strings.Count(got.Err, "\n") > 3 || strings.Contains(got.Err, strings.TrimSpace(string(secret))) || strings.Contains(got.Err, "<html>") || strings.Contains(got.Err, ":secret@") {
			t.Errorf("%q: the error is long or has a secret:\n%s", test.args, got.Err)
		}
	}
	if leaked.Load() {
		t.Error("the other server got a request")
	}
}

func handle(t *testing.T, do http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(do)
	t.Cleanup(server.Close)
	return server.URL
}

// pemOf returns a file with the certificate of a server.
func pemOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	block := pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	return servertest.WriteFile(t, "ca.pem", string(pem.EncodeToMemory(&block)))
}

// The API works over TLS with a certificate authority of one's own.
func TestServerWithTLS(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	a.keep(t, a.event(1, schemas.Published))
	s := serveAPI(t, config.Sources{Environ: a.environ[:2]})
	secure := httptest.NewUnstartedServer(s.Config.Handler)
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	environ := append(s.environ(t, access.Token{Name: "ada", Role: access.Viewer}), "WATERSHIP_SERVER="+secure.URL, "WATERSHIP_SERVER_CA="+pemOf(t, secure))
	if got := call(t.Context(), strings.NewReader(""), environ[1:], "search", "--count"); got.Out != "1\n" {
		t.Errorf("%+v", got)
	}
}

// A command cannot go through a server and to other servers.
func TestServersBesideAServer(t *testing.T) {
	for _, flag := range []string{"--amqp-url=amqp://localhost:1/", "--store-url=sqlite:none.db", "--data=elsewhere"} {
		name, _, _ := strings.Cut(flag, "=")
		got := call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_SERVER=http://127.0.0.1:1"}, "search", flag)
		if got.Code != exitUsage || !strings.Contains(got.Err, name+" and --server cannot be combined") {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}

// A command that only the servers themselves can serve refuses the setting.
func TestCommandsWithoutServer(t *testing.T) {
	for _, args := range [][]string{
		{"dev"}, {"serve"}, {"setup"}, {"import"}, {"token", "list"}, {"healthcheck"}, {"config", "show"}, {"config", "check"},
	} {
		name := strings.Join(args, " ")
		ctx, cancel := context.WithTimeout(t.Context(), rabbittest.Timeout) // dev and serve would run
		defer cancel()
		got := call(ctx, strings.NewReader(""), nil, append(args, "--server", "http://localhost:1")...)
		if got.Code != exitUsage || !strings.HasPrefix(got.Err, "watership: "+name+" cannot go through --server: ") || strings.Count(got.Err, "\n") != 1 {
			t.Errorf("%s: %+v", name, got)
		}
		got = call(ctx, strings.NewReader(""), []string{"WATERSHIP_SERVER=http://localhost:1"}, args...)
		if refused := strings.Contains(got.Err, name+" cannot go through a server, and WATERSHIP_SERVER sets one: "); refused == (args[0] == "config") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// breaking is a proxy before a server whose connections a test ends.
func breaking(t *testing.T, to string, cut func(r *http.Request, body io.ReadCloser) io.ReadCloser) *httptest.Server {
	t.Helper()
	address, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(address); r.Out.Host = address.Host },
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			r.Body = cut(r.Request, r.Body)
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			r.Header.Del(name)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server
}

// A server that limits requests gets them again, after the time that it names.
func TestServerThatLimitsRequests(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	a.keep(t, a.event(1, schemas.Published))
	s := serveAPI(t, config.Sources{Environ: a.environ[:2]})
	var requests atomic.Int32
	limiting := handle(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%2 == 1 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"status":429,"detail":"too many requests"}`)
			return
		}
		s.Config.Handler.ServeHTTP(w, r)
	})
	environ := append(s.environ(t, access.Token{Name: "ada", Role: access.Viewer}), "WATERSHIP_SERVER="+limiting)[1:]
	if got := call(t.Context(), strings.NewReader(""), environ, "search", "--count"); got != (servertest.Result{Out: "1\n", Code: exitOK}) || requests.Load() != 4 {
		t.Errorf("%+v after %d requests", got, requests.Load())
	}
}

// Ctrl-C ends the command, and the job goes on in the server.
func TestInterruptedReplayThroughServer(t *testing.T) {
	t.Parallel()
	a := play(t, servertest.Around(t, rabbittest.Embedded(t)).Install(t, servertest.Nobody))
	a.keep(a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2), a.event(schemas.Poisoned, 3))
	s := serveAPI(t, config.Sources{File: a.Installation.Config})
	environ := s.environ(t, access.Token{Name: "ann", Role: access.Operator, Bodies: true})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, errs := &servertest.Sink{}, &servertest.Sink{}
	done := make(chan int)
	go func() {
		done <- Run(ctx, terminal.Streams{In: strings.NewReader(""), Out: out, Err: errs}, []string{"replay", "*", "--yes", "--rate", "1"}, environ)
	}()
	servertest.Until(t, "the job to run", func() bool {
		return strings.Contains(call(t.Context(), strings.NewReader(""), environ, "jobs", "list").Out, "running")
	})
	interrupt()
	if code := <-done; code != exitInterrupted || !regexp.MustCompile(`the job goes on in the server: see watership jobs show \w+, or stop it with jobs cancel\nwatership: interrupted\n$`).MatchString(errs.String()) {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	servertest.Until(t, "the job to end", func() bool {
		return strings.Contains(call(t.Context(), strings.NewReader(""), environ, "jobs", "list").Out, "done")
	})
	if n := a.Broker.Len(t, a.Queue); n != 3 {
		t.Errorf("%d messages were sent", n)
	}
}

// A replay whose start gets no response is started once.
func TestReplayThroughServerStartsOnce(t *testing.T) {
	t.Parallel()
	a := play(t, servertest.Around(t, rabbittest.Embedded(t)).Install(t, servertest.Nobody))
	a.keep(a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2))
	s := serveAPI(t, config.Sources{File: a.Installation.Config})
	var starts atomic.Int32
	losing := handle(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/replays") && starts.Add(1) == 1 {
			s.Config.Handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		s.Config.Handler.ServeHTTP(w, r)
	})
	environ := append(s.environ(t, access.Token{Name: "ann", Role: access.Operator, Bodies: true}), "WATERSHIP_SERVER="+losing)[1:]
	if got := call(t.Context(), strings.NewReader(""), environ, "replay", "*", "--yes"); got.Code != exitOK || !strings.Contains(got.Out, "sent 2 of 2, job ") {
		t.Errorf("%+v", got)
	}
	if got := call(t.Context(), strings.NewReader(""), environ, "jobs", "list", "-o", "ndjson"); strings.Count(got.Out, "\n") != 1 || starts.Load() != 2 || a.Broker.Len(t, a.Queue) != 2 {
		t.Errorf("%d requests, %d messages: %+v", starts.Load(), a.Broker.Len(t, a.Queue), got)
	}
}

// What happens after the preview changes nothing that was not shown: a replay and a discard
// leave newer failures out, and a discard of fewer than were shown does nothing.
func TestActionsThroughServerAreThoseShown(t *testing.T) {
	t.Parallel()
	a := play(t, servertest.Around(t, rabbittest.Embedded(t)).Install(t, servertest.Nobody))
	first := a.event(schemas.Poisoned, 1)
	a.keep(first, a.event(schemas.Poisoned, 2))
	s := serveAPI(t, config.Sources{File: a.Installation.Config})
	var discards atomic.Int32 // each command counts, and then acts
	changing := handle(t, func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(path, "/replays"):
			a.keep(a.event(schemas.Poisoned, 3))
		case !strings.HasSuffix(path, "/discard"):
		case discards.Add(1) == 2:
			other := a.event(schemas.Discarded, 1)
			other.Message, other.ReplayOf = first.Message, first.EventID
			a.keep(other)
		case discards.Load() == 4:
			a.keep(a.event(schemas.Poisoned, 4))
		}
		s.Config.Handler.ServeHTTP(w, r)
	})
	environ := append(s.environ(t, access.Token{Name: "ann", Role: access.Operator, Bodies: true}), "WATERSHIP_SERVER="+changing)[1:]
	if got := call(t.Context(), strings.NewReader(""), environ, "replay", "action: poisoned", "--again", "--yes"); got.Code != exitOK || !strings.Contains(got.Out, "sent 2 of 2, job ") {
		t.Errorf("%+v", got)
	}
	discard := []string{"failed", "discard", "*", "--reason", "x", "--yes"}
	if got := call(t.Context(), strings.NewReader(""), environ, discard...); got.Code != exitFailed || !strings.Contains(got.Err, "expected: nothing was changed") {
		t.Errorf("%+v", got)
	}
	if got := call(t.Context(), strings.NewReader(""), environ, discard...); got.Code != exitOK || !strings.Contains(got.Out, "discarded 2 failures") {
		t.Errorf("%+v", got)
	}
}

// An export that is cut off fails, and says that it is incomplete.
func TestExportFromAServerThatGoesAway(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	var events []schemas.Event
	for n := range 2000 {
		events = append(events, a.event(n+1, schemas.Published))
	}
	a.keep(t, events...)
	s := serveAPI(t, config.Sources{Environ: a.environ[:2]})
	proxy := breaking(t, s.URL, func(r *http.Request, body io.ReadCloser) io.ReadCloser {
		if strings.HasSuffix(r.URL.Path, "/export") {
			return &cutBody{body, 200 << 10}
		}
		return body
	})
	environ := append(s.environ(t, access.Token{Name: "ada", Role: access.Viewer, Bodies: true}), "WATERSHIP_SERVER="+proxy.URL)[1:]
	got := call(t.Context(), strings.NewReader(""), environ, "export", "*")
	if lines := strings.Count(got.Out, "\n"); got.Code != exitFailed || lines == 0 || lines >= 2000 || !regexp.MustCompile(`ended the export after \d+ events, before its end .*repeat the export`).MatchString(got.Err) {
		t.Errorf("exit code %d, %d lines: %s", got.Code, lines, got.Err)
	}
}

// cutBody ends with an error after some bytes.
type cutBody struct {
	io.ReadCloser
	left int
}

func (c *cutBody) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// A tail goes on after the server was away, and loses and repeats nothing.
func TestTailOfAServerThatGoesAway(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	s := serveAPI(t, config.Sources{Environ: a.environ[:2]})
	var away atomic.Bool
	proxy := breaking(t, s.URL, func(_ *http.Request, body io.ReadCloser) io.ReadCloser { return body })
	handler := proxy.Config.Handler
	proxy.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	})
	environ := append(s.environ(t, access.Token{Name: "ada", Role: access.Viewer, Bodies: true}), "WATERSHIP_SERVER="+proxy.URL)[1:]
	a.keep(t, a.event(1, schemas.Published))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, errs := &servertest.Sink{}, &servertest.Sink{}
	done := make(chan int)
	go func() {
		done <- Run(ctx, terminal.Streams{In: strings.NewReader(""), Out: out, Err: errs}, []string{"tail", "-n", "1", "-o", "ndjson", "--fields", "message.id"}, environ)
	}()
	servertest.Until(t, "tail to begin", func() bool { return strings.Contains(out.String(), "m-1") })
	for n := range 2 {
		away.Store(true)
		proxy.CloseClientConnections()
		servertest.Until(t, "a warning", func() bool { return strings.Count(errs.String(), "waiting: ") > n })
		a.keep(t, a.event(2+n, schemas.Published))
		away.Store(false)
		servertest.Until(t, "the event of the time away", func() bool { return strings.Contains(out.String(), fmt.Sprint("m-", 2+n)) })
	}
	stop()
	if code := <-done; code != exitOK || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
}
