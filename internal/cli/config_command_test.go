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

// A schema that serve would refuse is a mistake of the configuration.
func TestConfigCheckReadsSchemas(t *testing.T) {
	check := func(schema string) servertest.Result {
		route := `{queue: orders, schema: "` + servertest.WriteFile(t, "orders.json", schema) + `", handler: {http: {url: "http://localhost:1"}}}`
		return call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_ROUTES=[" + route + "]"}, "config", "check")
	}
	servertest.WantRun(t, check(`{"type": "object"}`), 0, "in order")
	servertest.WantRun(t, check(`{"type": "text"}`), exitUsage, "routes[0].schema: schema ", "/type: expected")
}
