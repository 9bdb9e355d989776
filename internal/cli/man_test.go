package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
)

// Each command has a page with its help, which man prints without a complaint.
func TestManual(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if got := call(t.Context(), strings.NewReader(""), nil, "man", folder); got.Code != exitOK {
		t.Fatalf("%+v", got)
	}
	var pages []string
	everyCommand(newRoot(terminal.Streams{}, nil), func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.HasParent() && cmd.Parent().Hidden {
			return
		}
		page := filepath.Join(folder, manualName(cmd)+".1")
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
		}
		for _, want := range []string{"\n.SH NAME\n", roff(cmd.Short), roff(cmd.Example)} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", page, want)
			}
		}
		pages = append(pages, page)
	})
	if len(pages) < 30 {
		t.Errorf("only %d pages", len(pages))
	}
	if got := call(t.Context(), strings.NewReader(""), nil, "man", filepath.Join(pages[0], "missing")); got.Code != exitFailed || !strings.Contains(got.Err, pages[0]) {
		t.Errorf("%+v", got)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	check := exec.CommandContext(t.Context(), groff, append([]string{"-man", "-Tutf8", "-ww", "-z"}, pages...)...)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRoff(t *testing.T) {
	t.Parallel()
	if got, want := roff(".a\n'b\\c -d\n  .e"), "\\&.a\n\\&'b\\ec \\-d\n  .e"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
