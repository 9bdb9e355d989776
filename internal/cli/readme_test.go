package cli

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// command is one command of a page, with what it is said to print.
type command struct {
	line string
	want string
}

// TestReadme follows the walk of the README like a guide.
func TestReadme(t *testing.T) {
	t.Parallel() // most of it is waiting
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walk, _ := strings.Cut(string(text), "## From a failure to its replay\n")
	walk, _, _ = strings.Cut(walk, "\n## ")
	r := newReader(t)
	if files := r.follow(t, walk); files != 2 || r.commands < 8 || len(r.terminals) != 2 {
		t.Errorf("the walk has %d files, %d commands and %d terminals", files, r.commands, len(r.terminals))
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
		{`(http://127\.0\.0\.1:\d+ answered 500)[^\n]*`, "$1"},
		{`[ \t]+`, " "},
		{`(?m) $`, ""},
	} {
		text = regexp.MustCompile(variable.pattern).ReplaceAllString(text, variable.name)
	}
	return strings.TrimSpace(text)
}
