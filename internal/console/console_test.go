package console_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestPagesThatAreNotThere(t *testing.T) {
	s := newSystem(t)
	s.get(t, "/nothing").want(t, http.StatusNotFound, "the console has no such page", "Start from the overview.")
}

// Browsers keep styles and scripts for ever, since their paths change with them.
func TestAssets(t *testing.T) {
	s := newSystem(t)
	page := s.get(t, "/").text
	_, rest, _ := strings.Cut(page, `<link rel="stylesheet" href="`)
	path, _, _ := strings.Cut(rest, `"`)
	got := s.get(t, path)
	if got.StatusCode != http.StatusOK || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/css") ||
		!strings.Contains(got.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %s %v", path, got.Status, got.Header)
	}
	s.get(t, strings.Replace(path, "console.css", "other.css", 1)).want(t, http.StatusNotFound)
}
