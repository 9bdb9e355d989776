package architecture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUseFromAnotherModule: a program of another module builds with each public package,
// and plays a message through all of them on the embedded broker and store.
func TestUseFromAnotherModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range moduleFiles(t) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	test := exec.CommandContext(t.Context(), "go", "test", ".")
	test.Dir = dir
	test.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("go test: %v\n%s", err, out)
	}
}

// moduleFiles returns the files of a module that requires this one, by name.
func moduleFiles(t *testing.T) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	_, requirements, _ := strings.Cut(read(t, root+"/go.mod"), "\n\n")
	files := map[string]string{
		"go.sum": read(t, root+"/go.sum"),
		"go.mod": fmt.Sprintf("module example.com/service\n\n%s\nrequire %s v0.0.0\n\nreplace %s => %s\n", requirements, module, module, root),
	}
	for _, path := range moduleTests(t) {
		files[filepath.Base(path)] = read(t, path)
	}
	return files
}

func moduleTests(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/module/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheModuleUsesEachPublicPackage: the module above has each of them; the module of
// package broker has the suite of the brokers.
func TestTheModuleUsesEachPublicPackage(t *testing.T) {
	used := map[string]bool{}
	for _, path := range append(moduleTests(t), "../../broker/testdata/module/service_test.go") {
		imports, err := importsOf(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range imports {
			used[path] = true
		}
	}
	public := 0
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		if first, _, _ := strings.Cut(path, "/"); slices.Contains([]string{"cmd", "docs", "internal", "scripts"}, first) || strings.Contains(path, "/internal/") {
			continue
		}
		if public++; !used[p.ImportPath] {
			t.Errorf("testdata/module does not use %s", path)
		}
	}
	if public < 10 {
		t.Errorf("found only %d public packages", public)
	}
}
