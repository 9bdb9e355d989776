package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A dry run of a release prints each step and changes nothing; a version that cannot be released is refused.
func TestReleaseDryRun(t *testing.T) {
	script, err := filepath.Abs("../../scripts/release")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir, hooked := t.TempDir(), filepath.Join(t.TempDir(), "hooked")
	t.Setenv("GIT_DIR", hooked) // as in a hook of another repository
	run := func(environ string, command ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = dir
		cmd.Env = append(withoutGit(os.Environ()), append(strings.Fields(environ), "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	git := func(arguments ...string) string {
		t.Helper()
		out, err := run("", append([]string{"git"}, arguments...)...)
		if err != nil {
			t.Fatal(err, out)
		}
		return out
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "--quiet", "--initial-branch=main")
	write("# Changelog\n\n## [0.2.0] - unreleased\n\nNew things.\n\n## [0.1.0] - 2026-12-01\n\nThe first version.\n")
	git("add", ".")
	git("commit", "--quiet", "--message", "add the changes")
	git("tag", "v0.1.0")
	if _, err := os.Stat(hooked); err == nil {
		t.Fatal("the test writes to the repository of the hook that runs it")
	}
	git("tag", "v0.2.0-rc.1")

	out, err := run("VERSION=0.2.0 DRY_RUN=1", script)
	if err != nil {
		t.Fatal(err, out)
	}
	for _, want := range []string{"scripts/goapi keep", "WATERSHIP_TEST_RELEASE=0.2.0 go test", "released/0.2.0.yaml", "git commit", "\n\nNew things. --cleanup=whitespace v0.2.0", "git push origin main v0.2.0"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %q, but\n%s", want, out)
		}
	}
	if strings.Contains(out, "first version") {
		t.Errorf("the tag has the text of another version:\n%s", out)
	}
	if left := git("status", "--porcelain") + git("tag", "--list", "v0.2.0"); left != "" {
		t.Errorf("it has changed %s", left)
	}
	for environ, want := range map[string]string{
		"":              "VERSION is ''",
		"VERSION=v0.2":  "expected one such as 0.1.0",
		"VERSION=0.1.0": "the tag v0.1.0 exists",
		"VERSION=0.1.9": "v0.2.0-rc.1 is newer than 0.1.9",
		"VERSION=0.3.0": "CHANGELOG.md does not begin with ## [0.3.0] - unreleased",
	} {
		if out, err := run(environ+" DRY_RUN=1", script); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %s", environ, err, out)
		}
	}
	write("changed")
	if out, err := run("VERSION=0.2.0 DRY_RUN=1", script); err == nil || !strings.Contains(out, "not committed") {
		t.Errorf("%v, %s", err, out)
	}
}

// firstSubject is the time from which on subjects are checked: earlier ones have other forms, and stay. The time of
// the author counts, since a rebase changes the other one.
const firstSubject = "2026-11-30T04:30:00Z"

// withoutGit returns an environment without the variables of git, which name the repository of a hook.
func withoutGit(environ []string) []string {
	return slices.DeleteFunc(environ, func(one string) bool { return strings.HasPrefix(one, "GIT_") })
}

// The subjects of the last commits have the form that CONTRIBUTING.md asks for.
func TestCommitSubjects(t *testing.T) {
	git := func(arguments ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", arguments...)
		cmd.Env = withoutGit(os.Environ())
		out, err := cmd.Output()
		if err != nil {
			t.Skip("not a clone of the repository")
		}
		return strings.TrimSpace(string(out))
	}
	module, err := filepath.Abs("../..")
	if err == nil {
		module, err = filepath.EvalSymlinks(module)
	}
	if err != nil {
		t.Fatal(err)
	}
	if git("rev-parse", "--show-toplevel") != module || git("rev-parse", "--is-shallow-repository") == "true" {
		t.Skip("not a clone of the repository with its history")
	}
	first, err := time.Parse(time.RFC3339, firstSubject)
	if err != nil {
		t.Fatal(err)
	}
	for commit := range strings.Lines(git("log", "--max-count=50", "--no-merges", "--format=%aI %s")) {
		text, subject, _ := strings.Cut(strings.TrimSpace(commit), " ")
		written, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if fault := faultOf(subject); fault != "" && !written.Before(first) {
			t.Errorf("%q: %s", subject, fault)
		}
	}
}

// faultOf returns what is wrong with a subject; "": nothing. Those that git writes are right.
func faultOf(subject string) string {
	const most = 72
	if strings.HasPrefix(subject, "Merge ") || strings.HasPrefix(subject, "Revert ") {
		return ""
	}
	if len(subject) > most {
		return "it has more than 72 characters"
	}
	_, change, found := strings.Cut(subject, ": ")
	if !found {
		change = subject
	}
	first, _, _ := strings.Cut(change, " ")
	none := regexp.MustCompile(`^([A-Z].*|.*(ed|ing|[^su]s)|an?|the|it|its|one|two|all|no|not|each|every|some|more|less|fewer|what|which|who|how|why|when|where|if|of|for|in|on|to|with|without|by|from|and)$`)
	verb := regexp.MustCompile(`^(.*eed|embed|shed|wed|[^aeiouy]+ing|alias|bias)$`) // such as exceed and string
	if none.MatchString(first) && !verb.MatchString(first) {
		return "its first word is not an imperative: " + first
	}
	return ""
}

func TestFaultsOfSubjects(t *testing.T) {
	for subject, right := range map[string]bool{
		"retry: round Retry-After up to a standard delay":                         true,
		"embed the pages of the documentation":                                    true,
		"indexer: process batches side by side":                                   true,
		"store: seed the records":                                                 true,
		"reader: proceed after a page":                                            true,
		"broker: ping the nodes":                                                  true,
		"cli: alias a command":                                                    true,
		"Merge " + strings.Repeat("0a", 20) + " into " + strings.Repeat("1b", 20): true,
		`Revert "docs: the pages by subject"`:                                     true,
		"docs: the pages by subject":                                              false,
		"cli: prints the number":                                                  false,
		"cli: added a flag":                                                       false,
		"console: fixing the width of a table":                                    false,
		"console: " + strings.Repeat("long ", 14):                                 false,
	} {
		if fault := faultOf(subject); (fault == "") != right {
			t.Errorf("%q: %s", subject, fault)
		}
	}
}
