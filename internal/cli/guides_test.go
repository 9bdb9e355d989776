package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

const guides = "../../docs/guides/"

// TestGuides follows each guide as it is printed, in an empty folder: it saves the files, runs
// the commands, and compares what they print.
func TestGuides(t *testing.T) {
	t.Parallel() // most of it is waiting
	pages, err := filepath.Glob(guides + "*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("there are the guides %q: %v", pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for language, walk := range walks(string(text)) {
			t.Run(filepath.Base(page)+language, func(t *testing.T) {
				t.Parallel()
				r := newReader(t)
				if files := r.follow(t, walk); files < 1 || r.commands < 8 || len(r.terminals) < 2 {
					t.Errorf("the guide has %d files, %d commands and %d terminals", files, r.commands, len(r.terminals))
				}
			})
		}
	}
}

// walks returns what a reader follows on a page. A page with a part for each language has a walk
// for each that has code: what is before the parts, its part, and what follows them.
func walks(page string) map[string]string {
	before, parts, found := strings.Cut(page, "\n### ")
	if !found {
		return map[string]string{"": page}
	}
	parts, after, _ := strings.Cut(parts, "\n## ")
	all := map[string]string{}
	for part := range strings.SplitSeq(parts, "\n### ") {
		if language, _, _ := strings.Cut(part, "\n"); strings.Contains(part, "\n```") {
			all[" "+language] = before + "\n### " + part + "\n## " + after
		}
	}
	return all
}

// TestAPIPage follows the page of the HTTP API like a guide.
func TestAPIPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t)
	if files := r.follow(t, string(text)); files != 1 || r.commands < 12 || len(r.terminals) != 2 {
		t.Errorf("the page has %d files, %d commands and %d terminals", files, r.commands, len(r.terminals))
	}
}

// guideReader follows a guide in a folder of its own, beside a link to the checkout.
type guideReader struct {
	dir       string
	environ   []string
	ports     *strings.Replacer // from printed ports to free ones
	printed   *strings.Replacer // and back
	terminals map[string]*guideTerminal
	commands  int
}

// guideTerminal has a command that runs until the test ends.
type guideTerminal struct {
	out  *servertest.Sink
	read int // bytes of its output that the guide has shown
}

func newReader(t *testing.T) *guideReader {
	t.Helper()
	path, err := servertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	link(t, checkout, filepath.Join(folder, "watership"))
	r := &guideReader{dir: filepath.Join(folder, "guide"), terminals: map[string]*guideTerminal{}}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var there, back []string
	for _, port := range []string{"18081", "18082"} {
		_, free, _ := strings.Cut(rabbittest.FreeAddress(t), ":")
		there, back = append(there, port, free), append(back, free, port)
	}
	r.ports, r.printed = strings.NewReplacer(there...), strings.NewReplacer(back...)
	r.environ = append(commandEnvironment(), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"), "PYTHONUNBUFFERED=1",
		"PYTHONPATH="+os.Getenv("WATERSHIP_TEST_PIKA"), "NODE_PATH="+os.Getenv("WATERSHIP_TEST_AMQPLIB"))
	return r
}

// guideBlock is a block of code, and the line of text before it.
type guideBlock struct{ before, language, text string }

func blocksOf(t *testing.T, page string) []guideBlock {
	t.Helper()
	var blocks []guideBlock
	for _, found := range regexp.MustCompile("(?m)^(.+)\n+```(\\w*)\n((?s:.*?))^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, guideBlock{found[1], found[2], found[3]})
	}
	if fences := strings.Count(page, "\n```"); fences != 2*len(blocks) {
		t.Fatalf("the page has %d fences around %d blocks", fences, len(blocks))
	}
	return blocks
}

// follow returns the number of files that it has saved.
func (r *guideReader) follow(t *testing.T, page string) (files int) {
	t.Helper()
	saved := regexp.MustCompile("Save as `([\\w.-]+)`:$")
	running := regexp.MustCompile(`(first|second|third|fourth) terminal\b.* leave it running:$`)
	prints := regexp.MustCompile(`The (first|second|third|fourth) terminal prints:$`)
	for _, program := range []string{"python3", "openssl", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil && strings.Contains(page, program+" ") {
			servertest.Missing(t, program+" is not installed")
		}
	}
	for _, block := range blocksOf(t, page) {
		block.text = r.ports.Replace(block.text)
		said := func(line *regexp.Regexp) string { return strings.Join(line.FindStringSubmatch(block.before)[1:], "") }
		switch {
		case saved.MatchString(block.before):
			files++
			if err := os.WriteFile(filepath.Join(r.dir, said(saved)), []byte(block.text), 0o600); err != nil {
				t.Fatal(err)
			}
		case block.language == "console" && running.MatchString(block.before):
			r.leaveRunning(t, said(running), commandsOf(block.text))
		case block.language == "console":
			for _, c := range commandsOf(block.text) {
				r.run(t, c)
			}
		case block.language == "text" && prints.MatchString(block.before):
			r.prints(t, said(prints), block.text)
		case block.language == "sh":
			for line := range strings.Lines(block.text) {
				r.prepare(t, strings.TrimSpace(line))
			}
		default:
			t.Fatalf("a reader does not know what to do with the block after %q", block.before)
		}
	}
	return files
}

func commandsOf(text string) (all []command) {
	for _, part := range strings.Split("\n"+text, "\n$ ")[1:] {
		line, want, _ := strings.Cut(part, "\n")
		all = append(all, command{line, want})
	}
	return all
}

// prepare runs a line without output. Libraries come from scripts/fixtures, and the commands
// for logins are those of docs/permissions.md, which other tests run on servers.
func (r *guideReader) prepare(t *testing.T, line string) {
	t.Helper()
	program, _, _ := strings.Cut(line, " ")
	variable, installs := map[string]string{
		"pip": "WATERSHIP_TEST_PIKA", "npm": "WATERSHIP_TEST_AMQPLIB", "apt": "WATERSHIP_TEST_PHP", "mvn": "WATERSHIP_TEST_JAVA",
	}[program]
	if strings.HasPrefix(line, "apt install ruby") {
		variable = "WATERSHIP_TEST_RUBY"
	}
	if installs {
		r.install(t, line, variable)
		return
	}
	switch program {
	case "rabbitmqctl":
		page, err := os.ReadFile("../../docs/permissions.md")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n"+line+"\n") {
			t.Errorf("docs/permissions.md does not have the command %s", line)
		}
	case "go":
		sums, err := os.ReadFile("../../go.sum")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.dir, "go.sum"), sums, 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "go mod tidy") {
			shell(t, "../..", os.Environ(), "go mod tidy -diff") // fetches modules that no build here needs
		}
		shell(t, r.dir, append(slices.Clone(r.environ), "GOPROXY=off"), line) // the versions of the checkout
	default:
		shell(t, r.dir, r.environ, line)
	}
}

// install takes a library of scripts/fixtures, which has the version of the guide.
func (r *guideReader) install(t *testing.T, line, variable string) {
	t.Helper()
	fixture := os.Getenv(variable)
	if fixture == "" {
		servertest.Missing(t, variable+` is not set (eval "$(scripts/fixtures env)")`)
	}
	_, version, versioned := strings.Cut(strings.ReplaceAll(filepath.Base(fixture), "amqp-client", "client"), "-")
	if versioned && !strings.Contains(line, "slf4j") && !strings.Contains(line, version) {
		t.Errorf("%s: the tests have version %s", line, version)
	}
	if !strings.Contains(line, "-DoutputDirectory=lib") {
		return // PYTHONPATH and NODE_PATH name the others
	}
	lib := filepath.Join(r.dir, "lib")
	if _, err := os.Lstat(lib); err != nil {
		link(t, fixture, lib)
	}
}

// run compares what a command prints with the guide. A command that only reads is repeated
// until they agree, as events are stored a moment later.
func (r *guideReader) run(t *testing.T, c command) {
	t.Helper()
	r.commands++
	reads := regexp.MustCompile(`^(watership (show|failed|search)\b|curl -sG? |\./totals show$)`).MatchString(c.line)
	var diff, out string
	agrees := func() bool {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", c.line)
		cmd.Dir, cmd.Env = r.dir, r.environ
		printed, err := cmd.CombinedOutput()
		out = string(printed)
		if err != nil && !reads {
			t.Fatalf("$ %s: %v\n%s", c.line, err, out)
		}
		diff = cmp.Diff(r.alike(c.want), r.alike(out))
		return diff == "" || !reads
	}
	if !soon(agrees) || diff != "" {
		t.Fatalf("$ %s\n(-guide +got):\n%s\ngot:\n%s", c.line, diff, out)
	}
}

// leaveRunning runs commands, of which the last one goes on, and waits for what it prints.
func (r *guideReader) leaveRunning(t *testing.T, name string, commands []command) {
	t.Helper()
	last := commands[len(commands)-1]
	for _, c := range commands[:len(commands)-1] {
		r.run(t, c)
	}
	r.commands++
	r.terminals[name] = &guideTerminal{out: &servertest.Sink{}}
	cmd := exec.Command("bash", "-c", "exec "+last.line)
	cmd.Dir, cmd.Env = r.dir, append(slices.Clone(r.environ), "WATERSHIP_AMQP_LISTEN=127.0.0.1:0") // other tests run
	cmd.Stdout, cmd.Stderr = r.terminals[name].out, r.terminals[name].out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the %s terminal printed\n%s", name, r.terminals[name].out.String())
		}
	})
	r.prints(t, name, last.want)
	if address := regexp.MustCompile(`amqp://guest:guest@127.0.0.1:\d+`).FindString(r.terminals[name].out.String()); address != "" {
		r.environ = append(r.environ, "AMQP_URL="+address)
	}
}

// prints waits until a terminal has printed some lines in their order, perhaps with a log
// between them, after what the guide has shown of it.
func (r *guideReader) prints(t *testing.T, name, want string) {
	t.Helper()
	terminal := r.terminals[name]
	if terminal == nil {
		t.Fatalf("nothing runs in the %s terminal", name)
	}
	printed := func() bool {
		got := terminal.out.String()
		end := strings.LastIndexByte(got, '\n') + 1
		missing := strings.Split(r.alike(want), "\n")
		for line := range strings.Lines(r.alike(got[terminal.read:end])) {
			if len(missing) > 0 && strings.TrimRight(line, "\n") == missing[0] {
				missing = missing[1:]
			}
		}
		if len(missing) == 0 {
			terminal.read = end
		}
		return len(missing) == 0
	}
	if !soon(printed) {
		t.Fatalf("the %s terminal prints\n%s\nand not\n%s", name, terminal.out.String()[terminal.read:], want)
	}
}

// soon waits until a condition holds, and reports whether it did within a minute.
func soon(condition func() bool) bool { return rabbittest.Poll(time.Minute, condition) }

// alike also leaves out the ports that are free in this run.
func (r *guideReader) alike(text string) string {
	text = alike(r.printed.Replace(text))
	for _, variable := range []struct{ pattern, name string }{
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b`, "TIME"},
		{`(?m)^ ?1 [a-z2-7]{8} `, " 1 GROUP "},
		{`\b\d\d:\d\d:\d\d\.\d{3}`, "TIME"},
		{`(guest@127\.0\.0\.1):\d+`, "$1:PORT"},
		{`(took|failed after) [0-9.]+(ns|µs|ms|s)\b`, "$1 AWHILE"},
		{` \+LATER`, ""},
	} {
		text = regexp.MustCompile(variable.pattern).ReplaceAllString(text, variable.name)
	}
	return text
}
