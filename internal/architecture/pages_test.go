package architecture

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPagesNameFilesThatExist keeps the pages for contributors true when files move.
func TestPagesNameFilesThatExist(t *testing.T) {
	path := regexp.MustCompile("`((?:pipeline|indexer|replayer|schemas|eventstore|retry|broker|internal|cmd|docs)(?:/[a-z_0-9]+)*(?:\\.go)?)`")
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

// CONTRIBUTING.md tells a newcomer the subject of each package.
func TestEachPackageIsListed(t *testing.T) {
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for dir := range packageSizes(t) {
		part := strings.HasPrefix(dir, "scripts/") || strings.HasPrefix(dir, "schemas/internal/")
		if !part && !strings.Contains(string(text), "`"+dir+"`") {
			t.Errorf("CONTRIBUTING.md does not list %s", dir)
		}
	}
}
