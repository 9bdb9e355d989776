package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The changes fit the version of Go that runs the tests.
func TestOverlayOfThisGo(t *testing.T) {
	src, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	path, err := write(src, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil {
		t.Fatal(err)
	}
	for _, c := range changes() {
		changed, err := os.ReadFile(overlay.Replace[filepath.Join(src, c.file)])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(changed), c.after) {
			t.Errorf("%s has no %q", c.file, c.after)
		}
	}
}

func TestOverlayOfAnotherGo(t *testing.T) {
	src := t.TempDir()
	if err := os.Mkdir(filepath.Join(src, "runtime"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(src, "runtime", "synctest.go"), []byte("package runtime"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := write(src, t.TempDir()); err == nil || !strings.Contains(err.Error(), "another version of Go") {
		t.Errorf("the error is %v", err)
	}
}
