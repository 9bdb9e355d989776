package cli

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// command is one command of the README's story, with what it is said to print.
type command struct {
	line string
	want string
}

// story reads the configuration and the commands of the README.
func story(t *testing.T) (config string, commands []command) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```(yaml|console)\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	for _, block := range blocks {
		if block[1] == "yaml" {
			config = block[2]
			continue
		}
		for _, part := range strings.Split("\n"+block[2], "\n$ ")[1:] {
			line, want, _ := strings.Cut(part, "\n")
			commands = append(commands, command{line, want})
		}
	}
	if config == "" || len(commands) < 8 {
		t.Fatalf("the README has a configuration of %d bytes and %d commands", len(config), len(commands))
	}
	return config, commands
}

// TestReadme runs the commands of the README as they are printed, and compares
// their output, except for ids, times and other values that differ in each run.
func TestReadme(t *testing.T) {
	config, commands := story(t)
	p := servertest.Newest(t)
	p.Broker = rabbittest.NewestServer(t).VHost(t) // setup names what other tests leave in theirs
	broker := p.Broker
	var mended atomic.Bool
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	http500 := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mended.Load() {
			http.Error(w, "no such table: violins", http.StatusInternalServerError)
			return
		}
		service.ServeHTTP(w, r)
	})
	url := servertest.ServeHTTP(t, http500)

	i := p.Install(t, url) // for its names and its cleaning up
	home := t.TempDir()
	config = strings.ReplaceAll(config, "http://localhost:8080/orders", url)
	if err := os.WriteFile(filepath.Join(home, "watership.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := append(os.Environ(),
		"PATH="+filepath.Dir(i.Binary)+":"+os.Getenv("PATH"), "WATERSHIP_CONFIG=watership.yaml",
		"WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+broker.ManagementURL,
		"WATERSHIP_STORE_URL="+p.StoreURL, "WATERSHIP_STORE_STREAM="+i.Stream, "WATERSHIP_TOPOLOGY_PREFIX="+i.Prefix,
		"WATERSHIP_SOURCE=rabbit@shop//", "WATERSHIP_INDEX_BATCH_WAIT=50ms")
	removeStory(t, broker)
	t.Cleanup(func() { removeStory(t, broker) })
	asPrinted := strings.NewReplacer(broker.URL, "amqp://guest:xxxxx@localhost:5672/",
		strings.Replace(broker.URL, "guest:guest", "guest:xxxxx", 1), "amqp://guest:xxxxx@localhost:5672/",
		p.StoreURL, "http://localhost:9200", i.Stream+"-*", "watership-messages-*", url, "http://localhost:8080/orders")

	for _, c := range commands {
		if strings.HasSuffix(c.line, "&") {
			background(t, i, home, environ, strings.TrimSuffix(c.line, "&"))
			continue
		}
		if strings.Contains(c.line, "search") {
			i.Config = filepath.Join(home, "watership.yaml")
			i.Environ = environ
			i.Eventually(t, strings.Split(c.line, "'")[1], 1)
		}
		if strings.Contains(c.line, "replay") {
			mended.Store(true)
		}
		got := asPrinted.Replace(shell(t, home, environ, c.line))
		if diff := cmp.Diff(alike(c.want), alike(got)); diff != "" {
			t.Errorf("$ %s\n(-README +got):\n%s\ngot:\n%s", c.line, diff, got)
		}
	}
}

func removeStory(t *testing.T, broker rabbittest.Broker) {
	t.Helper()
	channel := broker.Channel(t)
	if _, err := channel.QueueDelete("orders", false, false, false); err != nil {
		t.Fatal(err)
	}
	if err := channel.ExchangeDelete("shop", false, false); err != nil {
		t.Fatal(err)
	}
}

func shell(t *testing.T, dir string, environ []string, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Dir, cmd.Env = dir, environ
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("$ %s: %v\n%s%s", line, err, out, errs.String())
	}
	return string(out)
}

// background runs a command until the test ends.
func background(t *testing.T, i *servertest.Installation, dir string, environ []string, line string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", "exec "+line)
	cmd.Dir, cmd.Env = dir, environ
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", line, err)
		}
	})
}

// alike leaves out what differs from run to run: times, ids and how far the
// columns of a table are apart.
func alike(text string) string {
	for _, variable := range []struct{ pattern, name string }{
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}`, "TIME"},
		{`TIME (UTC|[+-]\d\d:\d\d)\b`, "TIME ZONE"},
		{`v1:[0-9a-f]{64}`, "FINGERPRINT"},
		{`\b[0-9A-HJKMNP-TV-Z]{26}\b`, "ID"},
		{`\+[0-9.]+(µs|ms|s)\b`, "+LATER"},
		{`failed after [0-9.]+(µs|ms|s)\b`, "failed after AWHILE"},
		{`(http://localhost:8080 answered 500)[^\n]*`, "$1"},
		{`http://127\S* answered 500[^\n]*`, "http://localhost:8080 answered 500"},
		{`[ \t]+`, " "},
		{`(?m) $`, ""},
	} {
		text = regexp.MustCompile(variable.pattern).ReplaceAllString(text, variable.name)
	}
	return strings.TrimSpace(text)
}
