package httpapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// fixture returns a folder of scripts/fixtures.
func fixture(t *testing.T, variable string) string {
	t.Helper()
	folder := os.Getenv(variable)
	if folder == "" {
		if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
			t.Fatalf(`%s is not set (eval "$(scripts/fixtures env)")`, variable)
		}
		t.Skipf("%s is not set", variable)
	}
	return folder
}

// run runs a command in a folder, and returns its output.
func run(t *testing.T, dir string, environ []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// absolute returns the path of a file that a command in another folder finds.
func absolute(t *testing.T, path string) string {
	t.Helper()
	found, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A client that is generated from docs/openapi.json works.
func TestGeneratedPythonClient(t *testing.T) {
	t.Parallel()
	folder := fixture(t, "WATERSHIP_TEST_OPENAPI_PYTHON")
	s := newSystem(t, rabbittest.Embedded(t))
	s.fail(t, "m-1")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("post_hooks: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	python := []string{"PYTHONPATH=" + folder + ":" + dir, "PYTHONDONTWRITEBYTECODE=1"}
	run(t, dir, python, "python3", "-m", "openapi_python_client", "generate", "--path", absolute(t, openapi),
		"--meta", "none", "--output-path", filepath.Join(dir, "watership_client"), "--config", "config.yaml")
	if out := run(t, dir, python, "python3", absolute(t, "testdata/client.py"), s.url, s.secret); out != "ok\n" {
		t.Error(out)
	}
}

func TestGeneratedTypeScriptClient(t *testing.T) {
	t.Parallel()
	folder := fixture(t, "WATERSHIP_TEST_OPENAPI_TYPESCRIPT")
	s := newSystem(t, rabbittest.Embedded(t))
	s.fail(t, "m-1")
	dir := t.TempDir()
	if err := os.Symlink(folder, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "testdata/client.mts", filepath.Join(dir, "client.mts"))
	program := func(name string) string { return filepath.Join(folder, ".bin", name) }
	run(t, dir, nil, program("openapi-typescript"), absolute(t, openapi), "-o", "api.d.mts")
	run(t, dir, nil, program("tsc"), "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext", "--target", "es2022", "client.mts")
	if out := run(t, dir, nil, "node", "client.mjs", s.url, s.secret); out != "ok\n" {
		t.Error(out)
	}
}

// TestSoakSchemathesis sends what the document permits, and what it does not. A query is
// a text with a syntax, which a schema does not describe, so that a valid request may be
// refused.
func TestSoakSchemathesis(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	folder := fixture(t, "WATERSHIP_TEST_SCHEMATHESIS")
	s := newSystem(t, rabbittest.Embedded(t))
	s.fail(t, "m-1", "m-2")
	dir := t.TempDir()
	config := "[checks]\npositive_data_acceptance.enabled = false\n"
	if err := os.WriteFile(filepath.Join(dir, "schemathesis.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(t, dir, []string{"PYTHONPATH=" + folder, "PYTHONDONTWRITEBYTECODE=1"}, "python3", "-m", "schemathesis.cli", "run",
		absolute(t, openapi), "--url", s.url, "--header", "Authorization: Bearer "+s.secret, "--rate-limit", "40/s",
		"--max-examples", "20", "--request-timeout", "60", "--exclude-path-regex", "/(tail|watch)$")
	_, summary, _ := strings.Cut(out, "SUMMARY")
	t.Log(summary)
}
