package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPagesNameFilesThatExist keeps the pages for contributors true when files move.
func TestPagesNameFilesThatExist(t *testing.T) {
	path := regexp.MustCompile("`((?:pipeline|indexer|replayer|subscription|projection|outbox|schemas|eventstore|retry|broker|internal|cmd|docs)(?:/[a-z_0-9]+)*(?:\\.go)?)`")
	for _, page := range []string{"docs/architecture.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		named := path.FindAllStringSubmatch(string(text), -1)
		if len(named) < 10 {
			t.Errorf("%s names %d files and folders", page, len(named))
		}
		for _, name := range named {
			if _, err := os.Stat("../../" + name[1]); err != nil {
				t.Errorf("%s: %s is not there", page, name[1])
			}
		}
	}
}

// Links of a page to other pages name a file that exists, and one of its headings.
func TestLinksOfPages(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code := regexp.MustCompile("(?ms)^```.*?^```$")
	links := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if generated(entry) {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range link.FindAllSubmatch(code.ReplaceAll(text, nil), -1) {
			if strings.Contains(string(found[1]), "://") {
				continue
			}
			links++
			name, anchor, _ := strings.Cut(string(found[1]), "#")
			target := path
			if name != "" {
				target = filepath.Join(filepath.Dir(path), name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: there is no %s", path, name)
			} else if anchor != "" && !hasHeading(t, target, anchor) {
				t.Errorf("%s: %s has no heading for #%s", path, target, anchor)
			}
		}
		return err
	})
	if err != nil || links < 100 {
		t.Errorf("%d links: %v", links, err)
	}
}

// hasHeading reports whether a heading of a page has this anchor on GitHub.
func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		if strings.ReplaceAll(name, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// CONTRIBUTING.md tells a newcomer the subject of each package outside internal.
func TestEachPackageIsListed(t *testing.T) {
	text := read(t, "../../CONTRIBUTING.md")
	for _, p := range list(t) {
		dir := strings.TrimPrefix(p.ImportPath, module+"/")
		part := strings.HasPrefix(dir, "scripts/") || strings.Contains("/"+dir, "/internal/")
		if !part && !strings.Contains(text, "`"+dir+"`") {
			t.Errorf("CONTRIBUTING.md does not list %s", dir)
		}
	}
}

// generated reports whether a folder has no sources: servers of tests write to theirs all the time.
func generated(entry fs.DirEntry) bool {
	return entry.IsDir() && slices.Contains([]string{".services", ".git", "dist"}, entry.Name())
}

// A merge that was not finished leaves markers, which no compiler finds on a page.
func TestPagesHaveNoConflictMarkers(t *testing.T) {
	marker := regexp.MustCompile(`(?m)^(<<<<<<<|>>>>>>>) `)
	pages := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if generated(entry) {
			return filepath.SkipDir
		}
		if err != nil || entry.IsDir() {
			return err
		}
		switch filepath.Ext(path) {
		case ".md", ".yaml", ".yml", ".json":
			pages++
			text, err := os.ReadFile(path)
			if marker.Match(text) {
				t.Errorf("%s has the marker of a conflict", path)
			}
			return err
		}
		return nil
	})
	if err != nil || pages < 20 {
		t.Errorf("%d pages: %v", pages, err)
	}
}
