package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/system/runfile"
)

// TestConfigShowHasTheServersOfTheDataFolder checks that config show prints the servers
// that the other commands use.
func TestConfigShowHasTheServersOfTheDataFolder(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	folder, err := runfile.Acquire(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	file := runfile.StoreFile(data)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	running := runfile.Running{
		PID: os.Getpid(), Instance: "x", AMQP: "amqp://guest:secret@127.0.0.1:5999", Management: "http://guest:secret@127.0.0.1:15999", Store: "sqlite:" + file,
	}
	if err := folder.Announce(running); err != nil {
		t.Fatal(err)
	}
	environ := []string{"WATERSHIP_DATA=" + data}
	show := func(t *testing.T, want []string, args ...string) {
		t.Helper()
		got := call(t.Context(), strings.NewReader(""), environ, append([]string{"config", "show"}, args...)...)
		shown := columnsOf(got.Out)
		for _, line := range want {
			if !strings.Contains(shown+"\n", line+"\n") {
				t.Errorf("%q is not in\n%s%s", line, shown, got.Err)
			}
		}
		if strings.Contains(shown, "secret") {
			t.Errorf("a password is in\n%s", shown)
		}
	}
	t.Run("a process runs", func(t *testing.T) {
		show(t, []string{
			"amqp.url amqp://guest:xxxxx@127.0.0.1:5999 from " + data,
			"amqp.management_url http://guest:xxxxx@127.0.0.1:15999 from " + data,
			"store.url sqlite:" + file + " from " + data,
		})
	})
	t.Run("servers are configured", func(t *testing.T) {
		show(t, []string{
			"amqp.url amqp://guest@rabbit --amqp-url", "amqp.management_url http://guest@rabbit:15672 from amqp.url", "store.url http://localhost:9200 default",
		}, "--amqp-url", "amqp://guest@rabbit")
	})
	own, other := servertest.WriteFile(t, "own.yaml", "source: own\namqp: {url: 'amqp://rabbit', management_url: 'http://rabbit', listen: ':5999'}\nstore: {url: 'sqlite:a.db'}\ndata: b\n"), servertest.WriteFile(t, "other.yaml", "source: other\n")
	running.Config = own
	if err := folder.Announce(running); err != nil {
		t.Fatal(err)
	}
	servers := []string{
		"amqp.url amqp://guest:xxxxx@127.0.0.1:5999 from " + data,
		"amqp.management_url http://guest:xxxxx@127.0.0.1:15999 from " + data,
		"store.url sqlite:" + file + " from " + data,
	}
	t.Run("the process has a configuration", func(t *testing.T) {
		show(t, append(servers, "source own "+own+":1"))
		show(t, append(servers, "source flag --source"), "--source", "flag")
	})
	t.Run("the command has another", func(t *testing.T) {
		show(t, append(servers, "source other "+other+":1"), "--config", other)
		environ = append(environ, "WATERSHIP_CONFIG="+other)
		show(t, append(servers, "source other "+other+":1"))
		environ = environ[:1]
		show(t, []string{"amqp.url amqp://guest@rabbit --amqp-url", "store.url http://localhost:9200 default"}, "--amqp-url", "amqp://guest@rabbit")
	})
	if err := folder.Release(); err != nil {
		t.Fatal(err)
	}
	t.Run("the process has ended", func(t *testing.T) {
		show(t, []string{"amqp.url embedded:// from " + data, "store.url sqlite:" + file + " from " + data})
	})
}

// What serve refuses before it asks a server, config check refuses with the same words.
func TestConfigCheckRefusesWhatServeDoes(t *testing.T) {
	bad := servertest.WriteFile(t, "bad", "{{ if }}")
	route := func(text string) string {
		return "WATERSHIP_ROUTES=[{queue: orders, " + text + "}]"
	}
	const handler = `handler: {http: {url: "http://localhost:1"}}`
	alert := func(text string) []string {
		return []string{
			"WATERSHIP_ALERTS_RULES=[{name: a, kind: poisoned, query: " + text + "}]",
			"WATERSHIP_ALERTS_RECEIVERS=[{name: a, webhook: {url: 'http://localhost:1'}}]",
		}
	}
	for name, test := range map[string]struct {
		environ []string
		want    string
	}{
		"a type of queues":           {[]string{route(handler + ", arguments: {x-queue-type: quorun}")}, `routes[0].arguments.x-queue-type: "quorun": expected quorum or classic`},
		"an argument of other types": {[]string{route(handler + ", arguments: {x-queue-type: quorum, x-max-priority: 5}")}, `routes[0].arguments.x-max-priority: "5": expected a queue of type classic, by x-queue-type beside it`},
		"another one":                {[]string{route(handler + ", arguments: {x-queue-type: classic, x-delivery-limit: 5}")}, `routes[0].arguments.x-delivery-limit: "5": expected a queue of type quorum`},
		"arguments of two types":     {[]string{route(handler + ", arguments: {x-max-priority: 5, x-delivery-limit: 5}")}, `routes[0].arguments.x-max-priority: "5": expected a queue of type classic`},
		"the argument of a stream":   {[]string{route(handler + ", arguments: {x-max-age: 1D}")}, `routes[0].arguments.x-max-age: "1D": expected none, as only streams have it`},
		"the type of a value":        {[]string{route(handler + ", arguments: {x-max-length: many}")}, `routes[0].arguments.x-max-length: "many": expected a whole number from 0 to `},
		"a dead-letter key alone":    {[]string{route(handler + ", arguments: {x-dead-letter-routing-key: k}")}, `routes[0].arguments.x-dead-letter-routing-key: "k": expected x-dead-letter-exchange beside it`},
		"a reserved prefix":          {[]string{"WATERSHIP_TOPOLOGY_PREFIX=amq"}, `topology.prefix: "amq": expected`},
		"the query of an alert":      {alert("'nothing: x'"), "alerts.rules[0].query: "},
		"a template":                 {[]string{"WATERSHIP_ALERTS_RECEIVERS=[{name: a, webhook: {url: 'http://localhost:1', template_file: '" + bad + "'}}]"}, "alerts.receivers[0].webhook.template_file: template"},
		"a schema":                   {[]string{route(handler + ", schema: " + bad)}, "routes[0].schema: "},
		"a secret of a route":        {[]string{route(`handler: {http: {url: "http://localhost:1", secret_file: /nowhere/s}}`)}, "routes[0].handler.http.secret_file: /nowhere/s: no such file"},
		"a password of the broker":   {[]string{"WATERSHIP_AMQP_URL=amqp://user@127.0.0.1:1/", "WATERSHIP_AMQP_PASSWORD_FILE=/nowhere/p"}, "amqp.password_file: /nowhere/p: no such file"},
		"keys of states":             {[]string{"WATERSHIP_AMQP_STATE_KEY_FILE=" + bad}, "amqp.state_key_file: " + bad},
		"a password of the store":    {[]string{"WATERSHIP_STORE_USERNAME=u", "WATERSHIP_STORE_PASSWORD_FILE=/nowhere/p"}, "store.password_file: /nowhere/p: no such file"},
		"tokens":                     {[]string{"WATERSHIP_HTTP_AUTH_TOKENS_FILE=" + bad}, bad},
		"keys of sessions":           {[]string{"WATERSHIP_HTTP_AUTH_SESSION_KEY_FILE=" + bad}, "http.auth.session_key_file: " + bad},
		"a certificate":              {[]string{"WATERSHIP_HTTP_TLS_CERT=" + bad, "WATERSHIP_HTTP_TLS_KEY=" + bad}, "http.tls.cert"},
	} {
		t.Run(name, func(t *testing.T) {
			environ := append([]string{"WATERSHIP_DATA=" + t.TempDir(), "WATERSHIP_AMQP_URL=amqp://guest:guest@127.0.0.1:1/", "WATERSHIP_HTTP_LISTEN=127.0.0.1:0"}, test.environ...)
			checked := call(t.Context(), strings.NewReader(""), environ, "config", "check")
			if checked.Code != exitUsage || !strings.Contains(checked.Err, test.want) {
				t.Fatalf("config check: %+v", checked)
			}
			if served := call(t.Context(), strings.NewReader(""), environ, "serve"); served.Code != exitUsage || served.Err != checked.Err {
				t.Errorf("serve: %+v\nconfig check: %s", served, checked.Err)
			}
		})
	}
}

// A configuration is checked on another machine than that of serve, too.
func TestConfigCheckWithoutFiles(t *testing.T) {
	check := func(policy string) servertest.Result {
		return call(t.Context(), strings.NewReader(""), []string{
			"WATERSHIP_AMQP_STATE_KEY_FILE=/nowhere/a",
			`WATERSHIP_ROUTES=[{queue: orders, retry: ` + policy + `, handler: {http: {url: "http://localhost:1", secret_file: /nowhere/c}}}]`,
		}, "config", "check", "--no-files")
	}
	servertest.WantRun(t, check("default"), 0, "in order")
	servertest.WantRun(t, check("other"), exitUsage, "routes[0].retry")
}

// Each mistake is said, also where several files are wrong.
func TestConfigCheckListsEveryMistake(t *testing.T) {
	got := call(t.Context(), strings.NewReader(""), []string{
		"WATERSHIP_AMQP_STATE_KEY_FILE=/nowhere/a", "WATERSHIP_STORE_API_KEY_FILE=/nowhere/b",
	}, "config", "check")
	servertest.WantRun(t, got, exitUsage, "amqp.state_key_file: /nowhere/a", "store.api_key_file: /nowhere/b")
	got = call(t.Context(), strings.NewReader(""), []string{
		`WATERSHIP_ROUTES=[{queue: orders, handler: {http: {url: "http://localhost:1", secret_file: /nowhere/c}}}]`, "WATERSHIP_HTTP_AUTH_SESSION_KEY_FILE=/nowhere/d",
	}, "config", "check")
	servertest.WantRun(t, got, exitUsage, "routes[0].handler.http.secret_file: /nowhere/c", "/nowhere/d")
}

// A schema that serve would refuse is a mistake of the configuration.
func TestConfigCheckReadsSchemas(t *testing.T) {
	check := func(schema string) servertest.Result {
		route := `{queue: orders, schema: "` + servertest.WriteFile(t, "orders.json", schema) + `", handler: {http: {url: "http://localhost:1"}}}`
		return call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_ROUTES=[" + route + "]"}, "config", "check")
	}
	servertest.WantRun(t, check(`{"type": "object"}`), 0, "in order")
	servertest.WantRun(t, check(`{"type": "text"}`), exitUsage, "routes[0].schema: schema ", "/type: expected")
}
