package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// shells are interactive shells with their completion and nothing of the
// machine's own settings.
func shells() map[string]shellSetup {
	return map[string]shellSetup{
		"bash": {
			[]string{"--norc", "--noprofile", "-i"},
			"/usr/share/bash-completion/bash_completion",
			`source /usr/share/bash-completion/bash_completion; source <(watership completion bash); bind 'set completion-query-items 0'; bind 'set page-completions off'`,
			"echo shell is $((6*7))",
		},
		"zsh": {
			[]string{"-f", "-i"},
			"/usr/bin/zsh",
			`autoload -U compinit; compinit -u -D; source <(watership completion zsh); LISTMAX=1000`,
			"echo shell is $((6*7))",
		},
		"fish": {
			[]string{"--no-config", "-i"},
			"/usr/bin/fish",
			`watership completion fish | source`,
			"echo shell is (math '6*7')",
		},
	}
}

type shellSetup struct {
	args  []string
	needs string // a file
	setup string // a line that loads the completion
	done  string // a line that prints "shell is 42"
}

// completing is a shell in a folder of its own.
type completing struct {
	*session
	shell shellSetup
	dir   string
}

// inShell starts a shell in a folder of its own, in which the command is found
// and reads a store.
func (a seeded) inShell(t *testing.T, name string) completing {
	t.Helper()
	shell := shells()[name]
	if _, err := os.Stat(shell.needs); err != nil {
		servertest.Missing(t, fmt.Sprintf("no completion for %s: %v", name, err))
	}
	path, err := servertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(name, shell.args...)
	cmd.Dir = dir
	environ := append(slices.Clone(a.environ), "HOME="+dir, "PS1=> ", "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"))
	c := completing{inTerminal(t, environ, cmd), shell, dir}
	c.types(shell.setup + "\n")
	return c
}

// types presses keys, waits until the shell has done with them and takes the
// rest of the line away.
func (c completing) types(keys string) {
	c.t.Helper()
	const done = "shell is 42"
	before := strings.Count(c.screen.String(), done)
	c.press(keys + "\x15" + c.shell.done + "\n")
	servertest.Until(c.t, "the shell after "+keys, func() bool { return strings.Count(c.screen.String(), done) > before })
}

// ran says whether `touch PWNED` was run.
func (c completing) ran() bool {
	_, err := os.Stat(filepath.Join(c.dir, "PWNED"))
	return err == nil
}

// Whoever may publish a message has no way to run a command in the shell of an
// operator who completes an id, an error group or a value of a query.
func TestCompletionRunsNothing(t *testing.T) {
	for name := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, attack := range []string{"$(touch PWNED)-%d", "`touch PWNED`-%d", "x;touch PWNED;-%d", "(touch PWNED)-%d", "a\ttouch PWNED\n-%d"} {
				a := newSeededFile(t)
				for n := range 12 {
					text := fmt.Sprintf(attack, n)
					a.keep(t, a.event(n, schemas.Poisoned, poisonedAt(text, text), func(e *schemas.Event) {
						e.Envelope.Properties.MessageID, e.Failure.Type = text, text
					}))
				}
				c := a.inShell(t, name)
				for _, line := range []string{"show ", "failed --since 9000d error.type:\\ ", "replay --group "} {
					c.types("watership " + line + "\t\t\t")
				}
				if c.ran() {
					t.Errorf("completion has run %q:\n%s", attack, c.screen)
				}
			}
		})
	}
}

// What is typed in quotes is data for the shell that completes what follows it.
func TestCompletionBehindAQuery(t *testing.T) {
	for name := range shells() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newSeededFile(t)
			a.keep(t, a.event(1, schemas.Published, func(e *schemas.Event) { e.Envelope.Properties.MessageID = "order-1" }))
			c := a.inShell(t, name)
			c.types("watership search 'action: (touch PWNED)' \"`true`x (touch PWNED)\" --lim\t")
			if c.ran() {
				t.Errorf("completion has run what is in quotes:\n%s", c.screen)
			}
			if !rabbittest.Poll(rabbittest.Timeout, func() bool { // a busy store offers nothing in time
				c.types("watership show ord\t\n")
				return strings.Contains(c.screen.String(), "fingerprint    v1:")
			}) {
				t.Errorf("no id is completed:\n%s", c.screen)
			}
		})
	}
}
