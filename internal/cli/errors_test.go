package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// Bad input gets clear words and the right exit code.
func TestBadInput(t *testing.T) {
	a := newSeeded(t)
	dsl, noDSL := servertest.WriteFile(t, "bad.json", `{"term": {}}`), servertest.WriteFile(t, "no.json", `{"a": 1, "b": 2}`)
	for _, test := range []struct {
		args string
		code int
		want string // the beginning, and what else must be in it
		also string
	}{
		{"serch", 2, `unknown command "serch": expected one of`, "search"},
		{"serch --limit 1", 2, `unknown command "serch": expected one of`, "search"},
		{"discard --yes x", 2, `unknown command "discard": expected one of`, "did you mean 'watership failed discard'?"},
		{"adopt orders_error", 2, `required flag(s) "as" not set`, "watership adopt --help"},
		{"failed --by queue --muted", 2, "--by and --muted", "--by"},
		{"failed mute a --for 1h --until 2030-01-01 --reason x", 2, "--for and --until", ""},
		{"config nonsense --verbose", 2, `unknown command "nonsense": expected one of check, show`, ""},
		{"search --nope", 2, "unknown flag: --nope", "--help"},
		{"search (action:", 2, "found", "\n          ^\n"},
		{"search acton:|poisoned", 2, `no field "acton"`, "event.action"},
		{"search attempt:|many", 2, `"many" is not a number`, "watership.attempt"},
		{"search headers.n|>|5", 2, "ranges do not work on headers.*", "numeric_labels"},
		{"search @timestamp|>|yesterday", 2, `"yesterday" is not a date`, ""},
		{"search --since yesterday", 2, `--since "yesterday": expected a duration`, "7d"},
		{"search --since 1h30", 2, `--since "1h30": expected a duration`, ""},
		{"search --since -5m", 2, `--since "-5m": expected a duration such as 15m`, ""},
		{"search --from yesterday", 2, `--from "yesterday": expected a time such as`, "now-1d"},
		{"search --to 15m", 2, `--to "15m": expected a time such as`, ""},
		{"search --from 2026-05-04 --to 2026-05-03", 2, "no event can match: the period begins at 2026-05-04 00:00:00", "ends at 2026-05-03"},
		{"search --since 1h --to now-2h", 2, "no event can match", ""},
		{"search --since 1h --from now-1d", 2, "--since and --from", ""},
		{"search --by |", 2, `invalid argument " " for "--by" flag: expected a value`, "--help"},
		{"search --limit -1", 2, "--limit -1", ""},
		{"setup --untap |", 2, `invalid argument " " for "--untap" flag: expected a value`, "--help"},
		{"failed edit m-1 --queue |", 2, `invalid argument " " for "--queue" flag: expected a value`, "--help"},
		{"search -n abc", 2, `invalid argument "abc" for "-n, --limit" flag: expected a whole number (see `, ""},
		{"search -n 99999999999999999999", 2, `invalid argument "99999999999999999999" for "-n, --limit" flag: the number is too large (see `, ""},
		{"failed retry x --rate abc", 2, `invalid argument "abc" for "--rate" flag: expected a number (see `, ""},
		{"help serch", 2, `unknown command "serch": expected one of`, "did you mean 'watership search'?"},
		{"help failed retri", 2, `unknown command "retri": expected one of`, "did you mean 'watership failed retry'?"},
		{"search -o yaml", 2, "invalid argument \"yaml\"", "expected table, json, ndjson or csv"},
		{"search --fields qeue", 2, `no field "qeue"`, "watership.queue"},
		{"search --fields error", 2, `"error" is an object`, "error.message"},
		{"search --by watership.attempts", 2, `--by "watership.attempts" is an object`, "watership.attempts.class"},
		{"search watership.lag:|5", 2, "watership.lag is computed by Kibana", "event.ingested"},
		{"search --fields headers.*", 2, `"headers.*"`, "without wildcards"},
		{"search --by error.message", 2, "--by error.message", "error_group"},
		{"search --count --by queue", 2, "--count and --by", ""},
		{"search --count --fields queue", 2, "--fields", ""},
		{"search --dsl nofile.json", 2, "--dsl: open nofile.json", ""},
		{"search --dsl " + noDSL, 2, "--dsl", "one query"},
		{"search --dsl " + dsl, 1, "reading", "400"},
		{"show", 2, "expected one id", ""},
		{"show nobody", 1, `no message or event has the id "nobody"`, ""},
		{"export", 2, "expected a query", ""},
		{"show |", 2, "expected one id, got an empty text", ""},
		{"jobs show |", 2, "expected", "got an empty text"},
		{"import a b", 2, "expected one file, or none for standard input, got 2", ""},
		{"import nofile", 1, "open nofile", ""},
		{"publish nofile --key q", 1, "", "open nofile"},
		{"publish --header x", 2, `--header "x"`, ""},
		{"publish --header x=1 --header x=2", 2, `--header x=2: the header "x" is given twice`, ""},
		{"replay --set-header x=1 --remove-header x --ids - --yes", 2, `header "x" is changed twice`, ""},
		{"replay --remove-header x-death --ids - --yes", 2, "header x-death cannot be changed: RabbitMQ writes it", ""},
		{"replay --remove-property message_id --ids - --yes", 2, `property "message_id" cannot be removed`, "reply_to"},
		{"publish --count 0", 2, "--count 0", ""},
		{"publish --message-id a --count 2", 2, "--message-id is one id", ""},
		{"publish --ndjson --type x", 2, "--ndjson", ""},
		{"failed discard a", 2, "--reason is required", ""},
		{"routes pause a", 2, "--reason is required", ""},
		{"routes pause --reason b", 2, "expected the queue of the route", ""},
		{"tail -n -1", 2, "--lines -1", ""},
		{"config check --log-level loud", 2, "--log-level", "debug, info, warn or error"},
		{"completion ksh", 2, `unknown command "ksh": expected one of bash, fish, powershell, zsh`, ""},
		{"setup --kibana |", 2, `invalid argument " " for "--kibana" flag`, ""},
		{"config nonsense", 2, `unknown command "nonsense": expected one of check, show`, ""},
		{"failed discard --ids nofile --reason x --yes", 2, "--ids: open nofile", ""},
		{"search --config nofile.yaml", 2, "nofile.yaml: expected a configuration file", ""},
	} {
		args := strings.Fields(test.args)
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, "|", " ")
		}
		environ := append(a.environ, "WATERSHIP_AMQP_URL="+rabbittest.Newest(t).URL)
		got := call(t.Context(), strings.NewReader(""), environ, args...)
		if got.Code != test.code || !strings.HasPrefix(got.Err, "watership: "+test.want) || !strings.Contains(got.Err, test.also) {
			t.Errorf("watership %s: exit code %d, want %d\n%swant %s … %s", strings.Join(args, " "), got.Code, test.code, got.Err, test.want, test.also)
		}
		if lines := strings.Count(got.Err, "\n"); lines != 1 && !strings.Contains(got.Err, "^\n") {
			t.Errorf("watership %s: %d lines\n%s", strings.Join(args, " "), lines, got.Err)
		}
	}
}

// Queries beyond what Elasticsearch can answer: one line, that says what to do.
func TestQueriesBeyondLimits(t *testing.T) {
	t.Parallel() // most of it is waiting
	a := newSeeded(t)
	a.keep(t, a.event(1, schemas.Published), a.event(2, schemas.Poisoned)) // an empty store is not asked
	words := make([]string, 2_000)
	for i := range words {
		words[i] = fmt.Sprint("w", i)
	}
	long := strings.Repeat("x", 40_000)
	commands := [][]string{{"search"}, {"search", "--count"}, {"search", "--by", "queue"}, {"failed"}, {"export"}}
	for n, test := range []struct{ query, want string }{
		{"message.id: " + long, "at most 32,766 bytes"},
		{"message.id > " + long, "at most 32,766 bytes"},
		{"headers.tenant: " + long, "at most 32,766 bytes"},
		{"message.id: " + long + "*", "a shorter beginning"},
		{"message.id: *" + long, "a shorter beginning"},
		{"headers.tenant: " + long + "*", "a shorter beginning"},
		{strings.Join(words, " or "), "name the field of each word"},
		{"*: " + strings.Join(words, " or *: "), "name the field of each word"},
		{strings.Repeat("queue: a and (queue: b or ", 25) + "queue: c" + strings.Repeat(")", 25), "within one another"},
	} {
		asked := commands
		if n > 0 { // what the store refuses for one command, it refuses for all
			asked = commands[n%len(commands):][:1]
		}
		for _, args := range asked {
			got := call(t.Context(), strings.NewReader(""), a.environ, append(args, test.query)...)
			oneLine := strings.Count(got.Err, "\n") == 1 && len(got.Err) < 300 && !strings.Contains(got.Err, "exception")
			if got.Code != 1 || !oneLine || !strings.Contains(got.Err, test.want) {
				t.Errorf("watership %s %.30s: exit code %d, want 1\n%.600swant %s", strings.Join(args, " "), test.query, got.Code, got.Err, test.want)
			}
		}
	}
	got := call(t.Context(), strings.NewReader(long), a.environ, "failed", "discard", "--ids", "-", "--reason", "x", "--yes")
	if got.Code != 1 || !strings.Contains(got.Err, "at most 32,766 bytes") {
		t.Errorf("an id: exit code %d, %.600s", got.Code, got.Err)
	}
}

// What the broker refuses for every failure is said once.
func TestDiscardIsRefused(t *testing.T) {
	a := newSeeded(t)
	a.keep(t, a.event(1, schemas.Poisoned, poisonedAt("orders", "lost")), a.event(2, schemas.Poisoned, poisonedAt("orders", "lost")))
	environ := append(a.environ, "WATERSHIP_AMQP_URL="+rabbittest.Newest(t).URL, "WATERSHIP_TOPOLOGY_PREFIX="+a.source)
	got := call(t.Context(), strings.NewReader(""), environ, "failed", "discard", "action: poisoned", "--reason", "x", "--yes")
	if got.Code != exitFailed || !strings.Contains(got.Err, "no exchange") || strings.Count(got.Err, "\n") != 1 {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}

// Servers that are away, refuse us, or are not set up: one line, soon, and for RabbitMQ where its causes are.
func TestBadServers(t *testing.T) {
	t.Parallel() // most of it is waiting
	broker := rabbittest.Newest(t)
	stranger := strings.Replace(broker.URL, "guest:guest", "guest:wrong", 1)
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":{"type":"security_exception","reason":"action is unauthorized for user [shop]"},"status":403}`)
	}))
	t.Cleanup(denied.Close)
	fresh := "WATERSHIP_STORE_STREAM=nobody-made-this"
	for name, test := range map[string]struct {
		environ []string
		args    []string
		want    string
	}{
		"no store":             {[]string{"WATERSHIP_STORE_URL=http://127.0.0.1:1"}, []string{"search"}, "no answer from Elasticsearch at http://127.0.0.1:1"},
		"a store that refuses": {[]string{"WATERSHIP_STORE_URL=" + denied.URL}, []string{"search"}, "action is unauthorized for user [shop]"},
		"no templates":         {[]string{"WATERSHIP_STORE_URL=" + servertest.StoreURL(t), fresh}, []string{"search"}, "is missing: run `watership setup`"},
		"no templates, count":  {[]string{"WATERSHIP_STORE_URL=" + servertest.StoreURL(t), fresh}, []string{"search", "--count"}, "is missing: run `watership setup`"},
		"no templates, failed": {[]string{"WATERSHIP_STORE_URL=" + servertest.StoreURL(t), fresh}, []string{"failed"}, "is missing: run `watership setup`"},
		"no templates, show":   {[]string{"WATERSHIP_STORE_URL=" + servertest.StoreURL(t), fresh}, []string{"show", "x"}, "is missing: run `watership setup`"},
		"no templates, tail":   {[]string{"WATERSHIP_STORE_URL=" + servertest.StoreURL(t), fresh}, []string{"tail"}, "is missing: run `watership setup`"},
		"no templates, export": {[]string{"WATERSHIP_STORE_URL=" + servertest.StoreURL(t), fresh}, []string{"export", "*"}, "is missing: run `watership setup`"},
		"no templates, jobs":   {[]string{"WATERSHIP_STORE_URL=" + servertest.StoreURL(t), fresh}, []string{"jobs", "list"}, "is missing: run `watership setup`"},
		"no templates, replay": {
			[]string{"WATERSHIP_STORE_URL=" + servertest.StoreURL(t), fresh, "WATERSHIP_AMQP_URL=" + broker.URL},
			[]string{"replay", "*", "--unchecked-routes", "--yes"},
			"is missing: run `watership setup`",
		},
		"no broker":        {[]string{"WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/"}, []string{"publish", "--key", "q"}, "connection refused"},
		"a wrong password": {[]string{"WATERSHIP_AMQP_URL=" + stranger}, []string{"publish", "--key", "q"}, "password not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			got := call(t.Context(), strings.NewReader(""), test.environ, test.args...)
			message, causes, _ := strings.Cut(strings.TrimSuffix(got.Err, "\n"), "\n")
			if got.Code != exitFailed || !strings.Contains(message, test.want) || causes != "" && causes != "  watership doctor names the remedy; watership help troubleshooting has causes" {
				t.Errorf("exit code %d: %swant %s", got.Code, got.Err, test.want)
			}
			if got.Out != "" {
				t.Errorf("before it failed it wrote %q", got.Out)
			}
			if strings.Contains(got.Err, "wrong@") || time.Since(began) > rabbittest.Timeout {
				t.Errorf("after %s: %s", time.Since(began), got.Err)
			}
		})
	}
}

// Every mistake of a configuration is a line.
func TestMistakesAreLines(t *testing.T) {
	file := servertest.WriteFile(t, "w.yaml", "log: {level: loud}\nsorce: x\ntap: {exchanges: [{name: a}]}\n")
	got := call(t.Context(), strings.NewReader(""), nil, "config", "check", "-c", file)
	lines := strings.Split(strings.TrimSpace(got.Err), "\n")
	if got.Code != exitUsage || len(lines) != 3 {
		t.Errorf("exit code %d\n%s", got.Code, got.Err)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "watership: "+file+":") {
			t.Errorf("%s", line)
		}
	}
}

// Doctor opens the files that serve opens, and reports each that serve could not use.
func TestDoctorOpensFiles(t *testing.T) {
	secret := servertest.WriteFile(t, "secret", "short")
	file := servertest.WriteFile(t, "w.yaml", `amqp: {url: 'amqp://127.0.0.1:1/'}
store: {url: 'sqlite:`+filepath.Join(t.TempDir(), "store.db")+`'}
http: {tls: {cert: /nowhere/cert, key: /nowhere/key}, auth: {tokens_file: `+secret+`, session_key_file: /nowhere/session}}
routes:
  - {queue: a, schema: /nowhere/a.json, handler: {http: {url: 'http://127.0.0.1/', secret_file: `+secret+`}}}
  - {queue: b, schema: /nowhere/b.json, handler: {http: {url: 'http://127.0.0.1/', secret_file: /nowhere/b}}}
alerts: {receivers: [{name: x, slack: {url_file: /nowhere/slack}}, {name: y, webhook: {url: 'http://127.0.0.1/', template: '{{.Foo'}}]}
`)
	got := call(t.Context(), strings.NewReader(""), nil, "doctor", "-c", file)
	for _, want := range []string{
		"http.tls.cert", "http.auth.session_key_file", secret, "routes[0].schema", "routes[1].schema", "routes[0].handler.http.secret_file",
		"routes[1].handler.http.secret_file", "alerts.receivers[0].slack.url_file", "alerts.receivers[1].webhook",
	} {
		if !slices.ContainsFunc(strings.Split(got.Out, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "error    files") && strings.Contains(line, want)
		}) {
			t.Errorf("no finding names %s", want)
		}
	}
	if got.Code != exitFailed || t.Failed() {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}

// A class without a meaning of its own has no delays at a status that means poison.
func TestClassThatNeverApplies(t *testing.T) {
	check := func(outcome string) servertest.Result {
		file := servertest.WriteFile(t, "w.yaml", "retry: {policies: {slow: {first: 1s, attempts: 3, classes: {ordering: {delays: [10m]}}}}}\n"+
			"routes: [{queue: orders, retry: slow, handler: {http: {url: 'http://127.0.0.1/', statuses: {409: "+outcome+", 425: {class: ordering}}}}}]\n")
		return call(t.Context(), strings.NewReader(""), nil, "config", "check", "-c", file)
	}
	if got := check("{class: ordering}"); got.Code != exitOK || !strings.Contains(got.Out, "statuses.409: 409 means poison, so the delays of class ordering never apply") || strings.Contains(got.Out, "425") {
		t.Errorf("%+v", got)
	}
	if got := check("{means: retry, class: orderng}"); got.Code != exitOK || !strings.Contains(got.Out, "statuses.409: class orderng has no delays in retry policy slow; the nearest that has is ordering") {
		t.Errorf("%+v", got)
	}
	for _, outcome := range []string{"{means: retry, class: ordering}", "{means: poison, class: ordering}", "{class: other}"} {
		if got := check(outcome); got.Code != exitOK || strings.Contains(got.Out, "WARNING") {
			t.Errorf("%s: %+v", outcome, got)
		}
	}
}

func TestConfigShow(t *testing.T) {
	file := servertest.WriteFile(t, "w.yaml", "amqp: {url: 'amqp://me:secret@rabbit/'}\n")
	environ := []string{"WATERSHIP_LOG_LEVEL=debug"}
	got := call(t.Context(), strings.NewReader(""), environ, "config", "show", "-c", file, "--source", "shop")
	for _, want := range []string{
		"amqp.url amqp://me:xxxxx@rabbit/ " + file + ":1", "log.level debug WATERSHIP_LOG_LEVEL", "source shop --source",
		"store.stream watership-messages default", "amqp.management_url http://me:xxxxx@rabbit:15672 from amqp.url",
	} {
		if !strings.Contains(columnsOf(got.Out), want) {
			t.Errorf("%q is not in\n%s", want, columnsOf(got.Out))
		}
	}
	got = call(t.Context(), strings.NewReader(""), environ, "config", "show", "-c", file, "-o", "json")
	if !strings.Contains(got.Out, `"from": "WATERSHIP_LOG_LEVEL"`) || strings.Contains(got.Out, "secret") {
		t.Errorf("%s", got.Out)
	}
	if got := call(t.Context(), strings.NewReader(""), nil, "config", "check", "-c", file); got.Code != exitOK {
		t.Errorf("%+v", got)
	}
}

// A server that goes away while it is written to is no reader that has enough.
func TestBrokenConnectionIsAnError(t *testing.T) {
	pipe := os.NewSyscallError("write", syscall.EPIPE)
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, true},
		{&net.OpError{Op: "write", Net: "tcp", Err: pipe}, false},
	} {
		if got := outputClosed(fmt.Errorf("doing it: %w", test.err)); got != test.want {
			t.Errorf("%v ends a command quietly: %v, want %v", test.err, got, test.want)
		}
	}
}

// A reader that has enough, and Ctrl-C, end a command without a word or with
// one, and at once.
func TestEndings(t *testing.T) {
	path, err := servertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	a := seedOn(servertest.Newest(t))(t)
	for n := range 3 {
		a.keep(t, a.event(n+1, schemas.Published, func(e *schemas.Event) { e.Envelope.Body = []byte(strings.Repeat("x", 1<<20)) }))
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `"$0" search -o ndjson --limit 0 | head -c 10 >/dev/null; echo "${PIPESTATUS[0]}"`, path)
	cmd.Env = append(os.Environ(), a.environ...)
	var errs strings.Builder
	cmd.Stderr = &errs
	if out, err := cmd.Output(); err != nil || string(out) != "0\n" || errs.String() != "" {
		t.Errorf("a broken pipe: exit code %s, %v, %s", out, err, errs.String())
	}

	asked := make(chan struct{}, 100)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	ctx, cancel := context.WithTimeout(t.Context(), rabbittest.Timeout)
	defer cancel()
	errs.Reset()
	cmd = exec.CommandContext(ctx, path, "search")
	cmd.Env, cmd.Stderr = append(os.Environ(), "WATERSHIP_STORE_URL="+slow.URL), &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rabbittest.Receive(t, asked)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || errs.String() != "watership: interrupted\n" {
		t.Errorf("Ctrl-C: exit code %d, %s", code, errs.String())
	}
}
