package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/docs"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
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
	obvious := []string{"version", "licenses", "healthcheck"}
	everyCommand(newRoot(terminal.Streams{}, nil), func(cmd *cobra.Command) {
		if !cmd.Runnable() || cmd.Hidden || cmd.HasSubCommands() && cmd.Name() != "failed" && cmd.Name() != "stream" {
			return
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short help %q", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Example == "" && !slices.Contains(obvious, cmd.Name()) {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
	})
}

// The help of the command has each command in a group, in the order in which they are
// needed.
func TestHelpHasGroups(t *testing.T) {
	out := help(t, "--help")
	at := -1
	for _, want := range []string{
		"\nStart here:\n  dev ", "\nFind messages:\n  explain ", "\n  search ", "\nAct:\n  adopt ", "\n  replay ",
		"\nRun:\n  healthcheck ", "\n  serve ", "\nCheck:\n  alerts ", "\n  doctor ", "\nAdditional Commands:\n  completion ", "\n  watership docs ", "\n  watership settings ",
	} {
		next := strings.Index(out, want)
		if next <= at {
			t.Errorf("%q is not in, or not in its place in\n%s", want, out)
		}
		at = max(at, next)
	}
	root := newRoot(terminal.Streams{}, nil)
	additional := []string{"version", "licenses", "completion"}
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.GroupID == "" && !slices.Contains(additional, cmd.Name()) {
			t.Errorf("%s is in no group", cmd.Name())
		}
	}
}

// The help of a command has its own flags and the settings that everybody needs; the
// others are completed and understood all the same.
func TestHelpLeavesSettingsOut(t *testing.T) {
	for command, flags := range map[string]string{
		"":        "--amqp-url --store-url --log-level --config --server --token-file",
		"search":  "--amqp-url --store-url --log-level --config --server --token-file --since --fields --output",
		"replay":  "--amqp-url --store-url --log-level --config --server --token-file --to-failed-queue",
		"serve":   "--amqp-url --store-url --log-level --config --http-listen",
		"dev":     "--amqp-url --store-url --log-level --config --http-listen --amqp-listen --data --rate",
		"jobs":    "--amqp-url --store-url --log-level --config --server --token-file",
		"failed":  "--amqp-url --store-url --log-level --config --server --token-file --output",
		"version": "--amqp-url --store-url --log-level --config --server --token-file",
	} {
		out := help(t, append(strings.Fields(command), "--help")...)
		for flag := range strings.SplitSeq(flags, " ") {
			if !strings.Contains(out, flag+" ") {
				t.Errorf("%s: the help has no %s:\n%s", command, flag, out)
			}
		}
		for _, key := range config.Keys() {
			flag := "--" + key.Flag()
			if !strings.Contains(flags, flag) && strings.Contains(out, flag+" ") {
				t.Errorf("%s: the help has %s", command, flag)
			}
		}
		if !strings.HasSuffix(out, "\nEvery setting is also a flag: see \"watership help settings\".\n") {
			t.Errorf("%s: the help does not end with the topic of settings:\n%s", command, out)
		}
	}
	if got := call(t.Context(), strings.NewReader(""), nil, "__complete", "search", "--index-b"); !strings.Contains(got.Out, "--index-batch-bytes") {
		t.Errorf("flags of settings are not completed: %+v", got)
	}
}

func TestHelpOfSettings(t *testing.T) {
	out := help(t, "help", "settings")
	for _, key := range config.Keys() {
		start := "\n" + key.Name + "\n"
		if key.Default != "" {
			start = "\n" + key.Name + " (default: " + key.Default + ")\n"
		}
		_, entry, found := strings.Cut(out, start)
		entry, _, _ = strings.Cut(entry, "\n\n")
		if !found || !strings.Contains(entry, key.Help) || !strings.Contains(entry, key.Variable()) {
			t.Errorf("no entry %q, or without its help or variable: %q", start, entry)
		}
		if flag := "--" + key.Flag() + ","; strings.Contains(entry, flag) != (key.Form != config.Structure) {
			t.Errorf("the entry of %s and its flag: %q", key.Name, entry)
		}
	}
}

// Each page of the documentation is a topic of help, also one that has the name of a command.
func TestHelpOfPages(t *testing.T) {
	t.Parallel()
	pages, err := docs.Pages()
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	list := help(t, "help", "docs")
	for _, page := range pages {
		if page.Name == "README" {
			continue
		}
		topic := regexp.MustCompile(`(?m)^  (` + page.Name + `(?:-page)?) +` + regexp.QuoteMeta(page.Title) + `$`).FindStringSubmatch(list)
		if topic == nil {
			t.Errorf("no topic %s in\n%s", page.Name, list)
		} else if got := help(t, "help", topic[1]); got != page.Text {
			t.Errorf("help %s prints %.60q", topic[1], got)
		}
	}
	if got := help(t, "help", "routes"); !strings.Contains(got, "Usage:\n  watership routes") {
		t.Errorf("a page hides the help of a command: %s", got)
	}
	for word, end := range map[string]string{
		"sonata":      "",
		"GDPR":        "\n  these topics have it: privacy",
		"fairness":    "\n  these topics have it: routes-page, ",
		"dead letter": "\n  these topics have it: faq, coming-from, ",
	} {
		got := call(t.Context(), strings.NewReader(""), nil, append([]string{"help"}, strings.Fields(word)...)...)
		if got.Code != exitUsage || !strings.Contains(got.Err+"$", "; watership help docs lists the other topics"+end) || end == "" && strings.Contains(got.Err, "these topics") {
			t.Errorf("help %s: %+v", word, got)
		}
	}
}

// The page of commands has each of them.
func TestPageOfCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range newRoot(terminal.Streams{}, nil).Commands() {
		if cmd.IsAvailableCommand() && !strings.Contains(string(page), "`"+cmd.Name()+"`") {
			t.Errorf("docs/commands.md does not have %s", cmd.Name())
		}
	}
}

// help returns the output of a command line that only asks for help.
func help(t *testing.T, args ...string) string {
	t.Helper()
	got := call(t.Context(), strings.NewReader(""), nil, args...)
	if got.Code != exitOK || got.Err != "" {
		t.Fatalf("%s: %+v", args, got)
	}
	return got.Out
}

// changing are the commands whose examples are only parsed.
var changing = regexp.MustCompile(`watership (dev|serve|mcp|subject|erase|approvals (approve|refuse)|setup|publish|replay|tail|adopt|alerts test|reload|redact|validate|waiting (now|postpone|cancel)|failed (discard|retry|edit|assign|unassign|mute|unmute|note|resolve|show|why)|quarantine rewrite .* --yes|import|jobs (show|cancel|resume)|routes (pause|resume|add|remove)|receivers (show|recover|hold|release)|searches (save|rename|delete)|subscri(be|ptions (show|configure|pause|resume|rewind|delete|parked))|stream (replay|order-42 --to)|token|(show|export) .*--original)`)

// Every example is a command line with flags that exist; those that change
// nothing are run.
func TestExamplesWork(t *testing.T) { inEitherStore(t, testExamplesWork) }

func testExamplesWork(t *testing.T, seed seeder) {
	a := aFew(t, seed)
	published := a.event(50, schemas.Published, func(e *schemas.Event) {
		e.Envelope.Properties.MessageID, e.Stream = "6f1c0b9e", schemas.MessageStream{ID: "order-42", Version: 7, HasVersion: true}
	})
	poisoned := published
	poisoned.EventID, poisoned.Action, poisoned.Sequence, poisoned.Queue = published.EventID+"-poisoned", schemas.Poisoned, 51, "orders"
	a.keep(t, published, poisoned)
	path, err := servertest.Binary()
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
