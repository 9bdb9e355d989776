package cli

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
)

// Every call of watership on a page is a command with these flags. What is a placeholder in it, no command reads.
func TestCommandsOnPagesExist(t *testing.T) {
	pages := []string{"README.md", "deploy/README.md", "deploy/helm/watership/templates/NOTES.txt", "docker-compose.yml"}
	err := fs.WalkDir(os.DirFS(repository+"docs"), ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			pages = append(pages, filepath.Join("docs", name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(terminal.Streams{}, nil)
	found := 0
	for _, page := range pages {
		text := strings.ReplaceAll(string(readAll(t, repository+page)), "\\\n", " ")
		for _, match := range callOnPage.FindAllStringSubmatch(text, -1) {
			found++
			if err := findCall(root, words(match[1])); err != "" {
				t.Errorf("%s: watership %s: %s", page, match[1], err)
			}
		}
	}
	if found < 400 {
		t.Errorf("the pages have %d calls", found)
	}
}

// callOnPage begins a line or code in it, after a prompt, a user, settings or another command, and ends before another
// command, a comment or the code.
var callOnPage = regexp.MustCompile("(?m)(?:^ *|`|[|&;] |-- /|exec watership /)(?:\\$ |sudo |-u watership |[A-Z_]+=\\S+ )*watership ((?:'[^'\n]*'|\"[^\"\n]*\"|[^'\"`|;&#\n])+)")

// findCall returns what is wrong with the name or the flags of a call, "" if nothing is.
func findCall(root *cobra.Command, args []string) string {
	command, rest, err := root.Find(args)
	switch {
	case err != nil:
		return err.Error()
	case command == root && args[0] != "COMMAND" && !strings.HasPrefix(args[0], "-"):
		return "no such command"
	}
	if err := command.ParseFlags(rest); err != nil && strings.Contains(err.Error(), "unknown") {
		return err.Error()
	}
	return ""
}
