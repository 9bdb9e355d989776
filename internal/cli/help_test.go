package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/schemas"
)

func everyCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, child := range cmd.Commands() {
		everyCommand(child, visit)
	}
}

// Every command says what it is for and shows how it is used.
func TestEveryCommandHasHelp(t *testing.T) {
	everyCommand(newRoot(terminal.Streams{}, nil), func(cmd *cobra.Command) {
		if !cmd.Runnable() || cmd.HasSubCommands() && cmd.Name() != "failed" {
			return
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short help %q", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Example == "" && cmd.Name() != "version" && cmd.Name() != "healthcheck" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
	})
}

// changing are the commands whose examples are only parsed.
var changing = regexp.MustCompile(`watership (dev|serve|setup|publish|replay|tail|failed discard|import|jobs (show|cancel|resume))`)

// Every example is a command line with flags that exist; those that change
// nothing are run.
func TestExamplesWork(t *testing.T) { inEachStore(t, testExamplesWork) }

func testExamplesWork(t *testing.T, seed seeder) {
	a := aFew(t, seed)
	a.keep(t, a.event(50, schemas.Published, func(e *schemas.Event) { e.Envelope.Properties.MessageID = "6f1c0b9e" }))
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "watership.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broker := rabbittest.Newest(t)
	environ := append(append(os.Environ(), a.environ...), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"),
		"WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+broker.ManagementURL)
	everyCommand(newRoot(terminal.Streams{}, nil), func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if !strings.Contains(line, cmd.CommandPath()) && cmd.Name() != "failed" {
				t.Errorf("an example of %s: %s", cmd.CommandPath(), line)
			}
			wantParses(t, line)
			if !changing.MatchString(line) && cmd.Name() != "doctor" {
				shell(t, home, environ, line)
			}
		}
	})
}

// wantParses gives the words of a line to the command line, up to running it.
func wantParses(t *testing.T, line string) {
	t.Helper()
	_, line, _ = strings.Cut(line, "watership ")
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " > ")
	words := words(line)
	root := newRoot(terminal.Streams{In: strings.NewReader(""), Out: new(bytes.Buffer), Err: new(bytes.Buffer)}, nil)
	cmd, rest, err := root.Find(words)
	if err != nil || cmd == root {
		t.Errorf("%s: no such command: %v", line, err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: %v", line, err)
		return
	}
	if cmd.Args != nil {
		if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// words takes a line apart as a shell does, as far as examples need it.
func words(line string) []string {
	var list []string
	for _, match := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		list = append(list, match[1]+match[2])
	}
	return list
}
