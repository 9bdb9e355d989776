package cli

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/system/embedded"
)

// A dev that was killed leaves its store, and another dev that has its port since
// is not taken for it.
func TestKilledDevelopmentIsNotMistaken(t *testing.T) {
	address := rabbittest.FreeAddress(t)
	killed := develop(t, nil, "--empty", "--amqp-listen", address)
	killed.says(t, "Try, in a second terminal")
	if err := killed.signal(t, syscall.SIGKILL); err == nil {
		t.Error("killed, and no error")
	}
	other := develop(t, nil, "--empty", "--amqp-listen", address)
	other.says(t, "Try, in a second terminal")
	killed.isOver(t)
	if out := other.must(t, other.binary+" doctor"); !strings.Contains(out, "answers at amqp://guest:xxxxx@"+address) {
		t.Errorf("the other dev is not found in its own folder:\n%s", out)
	}
	again := developIn(t, killed.dir, nil, "--empty")
	again.says(t, "Try, in a second terminal")
	if out := again.must(t, again.binary+" doctor"); strings.Contains(out, address) {
		t.Errorf("after the next start, the other dev is found:\n%s", out)
	}
}

// Commands in the folder of a dev have its configuration, which names topology, policies,
// routes, receivers and the store.
func TestCommandsHaveTheConfigurationOfDevelopment(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"dev.yaml": `
topology: {prefix: mine}
amqp: {listen: "127.0.0.1:0"}
store: {url: "sqlite:mine.db"}
retry: {policies: {default: {delays: [7s]}}}
routes: [{queue: invoices, park: true, schema: invoices.json}]
alerts: {receivers: [{name: chat, webhook: {url: "http://127.0.0.1:9/"}}]}
`, "invoices.json": `{"type": "object"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := developIn(t, dir, nil, "--empty", "--config", "dev.yaml")
	d.says(t, "Try, in a second terminal")
	for _, file := range []string{"", " --config dev.yaml"} {
		command := func(line string) string { return d.binary + " " + line + file }
		d.must(t, command("setup"))
		for line, want := range map[string]string{
			"explain --error a:b --queue q": "after 7 s", "validate --route invoices 'action: published'": "0 ",
			"config show": "mine.db", "config check": "in order", "routes": "invoices",
		} {
			if out := d.must(t, command(line)); !strings.Contains(out, want) {
				t.Errorf("%s: %q is not in\n%s", command(line), want, out)
			}
		}
		for line, want := range map[string]string{"doctor": "mine.", "alerts test": "chat"} {
			if out, _ := d.sh(command(line)); !strings.Contains(out, want) || strings.Contains(out, "watership.retry") {
				t.Errorf("%s: %q is not in\n%s", command(line), want, out)
			}
		}
	}
}

// A file for dev alone, with amqp.listen and no amqp.url, is for the other commands, too. serve
// would connect to RabbitMQ, and not listen.
func TestListenAddressWithoutABroker(t *testing.T) {
	d := inFolder(t, t.TempDir())
	file := filepath.Join(d.dir, "dev.yaml")
	for text, wants := range map[string]map[string]string{
		"amqp: {listen: '127.0.0.1:0'}\n": {
			"config check": "in order", "config show": "embedded://",
			"serve": "amqp.listen: \"127.0.0.1:0\": expected nothing unless amqp.url is embedded://", "doctor": "no watership is running here",
		},
		"amqp: {listen: '127.0.0.1:0', url: 'amqp://rabbit'}\n": {"doctor": "expected nothing unless amqp.url is embedded://", "serve": "expected nothing unless amqp.url is embedded://"},
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for command, want := range wants {
			if out, _ := d.sh(d.binary + " " + command + " --config dev.yaml"); !strings.Contains(out, want) {
				t.Errorf("%s with %s: %q is not in\n%s", command, text, want, out)
			}
		}
	}
}

// Of several dev that are started in a folder at once, one runs.
func TestOneDevelopmentRunsInAFolder(t *testing.T) {
	dir := t.TempDir()
	all := make([]*development, 4)
	for n := range all {
		all[n] = developIn(t, dir, nil, "--empty")
	}
	var running *development
	for _, d := range all {
		servertest.Until(t, "dev to run or to end", func() bool {
			return strings.Contains(d.out.String(), "Try, in a second terminal") || strings.Contains(d.out.String(), "another watership runs")
		})
		if strings.Contains(d.out.String(), "another watership runs") {
			continue
		}
		if running != nil {
			t.Fatalf("two run in one folder:\n%s\n%s", running.out, d.out)
		}
		running = d
	}
	if running == nil {
		t.Fatal("none runs")
	}
	for _, d := range all {
		if d != running {
			<-d.ended
		}
	}
	address := regexp.MustCompile(`amqp://guest:guest@(\S+)`).FindStringSubmatch(running.out.String())[1]
	if out := running.must(t, running.binary+" doctor"); !strings.Contains(out, address) {
		t.Errorf("the dev at %s is not found:\n%s", address, out)
	}
	if err := running.signal(t, syscall.SIGINT); err != nil {
		t.Errorf("dev ended with %v", err)
	}
	running.isOver(t)
}

// dev says that its usual ports are in use, and which it has instead. Parallel tests run after it, so that
// none of theirs leaves a port in the meantime.
func TestDevelopmentBesideOthers(t *testing.T) {
	for _, usual := range []string{devListen, embedded.DefaultListen} {
		if listener, err := net.Listen("tcp", usual); err == nil { // else it is in use already
			t.Cleanup(func() { _ = listener.Close() })
		}
	}
	d := developAt(t, t.TempDir(), nil, "--empty")
	d.says(t, "Try, in a second terminal")
	for _, want := range []string{`console http://127\.0\.0\.1:\d+  \(port 8181 is in use\)`, `broker  amqp://guest:guest@127\.0\.0\.1:\d+  \(port 5672 is in use\)`} {
		if !regexp.MustCompile(want).MatchString(d.out.String()) {
			t.Errorf("there is no %s", want)
		}
	}
}

// A folder that came with a checkout or an archive does not say where the broker
// and the store are, least of all to one who has a password for them.
func TestPlantedFolderIsNotUsed(t *testing.T) {
	t.Parallel() // most of it is waiting
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		login, password, _ := r.BasicAuth()
		asked = append(asked, fmt.Sprint(r.Method, " ", r.URL, " ", login, ":", password))
		http.Error(w, "{}", http.StatusNotFound)
	}))
	defer server.Close()
	dir := t.TempDir()
	data := filepath.Join(dir, ".watership")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	planted := fmt.Sprintf(`{"pid": 1, "instance": "x", "amqp": "amqp://guest:guest@%s", "management": %q, "store": %q}`,
		strings.TrimPrefix(server.URL, "http://"), server.URL, server.URL)
	if err := os.WriteFile(filepath.Join(data, "running.json"), []byte(planted), 0o644); err != nil {
		t.Fatal(err)
	}
	d := inFolder(t, dir)
	password := servertest.WriteFile(t, "password", "S3cretOfProduction\n")
	var commands sync.WaitGroup
	for _, environ := range []string{"", "WATERSHIP_STORE_USERNAME=elastic WATERSHIP_STORE_PASSWORD_FILE=" + password + " "} {
		for _, command := range []string{"search", "failed", "doctor", "jobs list"} {
			commands.Go(func() { // nothing listens where it is by default, or our tests' servers do
				_, _ = d.sh(environ + "WATERSHIP_LOG_LEVEL=error " + d.binary + " " + command)
			})
		}
	}
	commands.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(asked) > 0 {
		t.Errorf("the planted server was asked %q", asked)
	}
}

// dev writes through no link, and trusts no folder that others may write to.
func TestDevelopmentInAFolderOfOthers(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir, data, target string)
		says    string // "": it runs
	}{
		"link at the file":     {func(t *testing.T, _, data, target string) { link(t, target, filepath.Join(data, "running.json")) }, ""},
		"link at the new file": {func(t *testing.T, _, data, target string) { link(t, target, filepath.Join(data, "running.json.new")) }, ""},
		"link at the store":    {func(t *testing.T, _, data, target string) { link(t, target, filepath.Join(data, "store.db")) }, "store.db is no ordinary file"},
		"link at the lock":     {func(t *testing.T, _, data, target string) { link(t, target, filepath.Join(data, "lock")) }, "lock is no ordinary file"},
		"link at the folder":   {func(t *testing.T, dir, data, _ string) { _ = os.Remove(data); link(t, t.TempDir(), data) }, "is a link"},
		"open to others":       {func(t *testing.T, _, data, _ string) { chmod(t, data, 0o777) }, "can be written to by other users"},
		"of another user":      {func(t *testing.T, _, data, _ string) { chown(t, data) }, "belongs to another user"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			data, target := filepath.Join(dir, ".watership"), servertest.WriteFile(t, "target", "precious")
			if err := os.Mkdir(data, 0o700); err != nil {
				t.Fatal(err)
			}
			test.prepare(t, dir, data, target)
			d := developIn(t, dir, nil, "--empty")
			if test.says == "" {
				d.says(t, "Try, in a second terminal")
			} else {
				d.says(t, test.says)
				if err := <-d.ended; err == nil {
					t.Error("dev has run")
				}
				if out, err := d.sh(d.binary + " search"); err == nil || !strings.Contains(out, test.says) {
					t.Errorf("search: %v, %s", err, out)
				}
			}
			if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
				t.Errorf("dev wrote %q through a link, %v", text, err)
			}
		})
	}
}

// A folder that is deleted while dev runs ends it: what it writes would be lost.
func TestDevelopmentWhoseFolderIsDeleted(t *testing.T) {
	d := develop(t, nil, "--empty")
	d.says(t, "Try, in a second terminal")
	if err := os.RemoveAll(filepath.Join(d.dir, ".watership")); err != nil {
		t.Fatal(err)
	}
	d.says(t, "the data folder .watership was deleted")
	if err := <-d.ended; err == nil {
		t.Error("dev ended as if all were well")
	}
}

// inFolder is where commands run, and no dev.
func inFolder(t *testing.T, dir string) *development {
	t.Helper()
	path, err := servertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return &development{dir: dir, binary: path, environ: commandEnvironment(), out: &servertest.Sink{}}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func chown(t *testing.T, path string) {
	t.Helper()
	if err := os.Chown(path, 12345, 12345); err != nil {
		t.Skipf("only root can give a folder away: %v", err)
	}
}
