package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// repository is the root of this checkout.
var repository = os.DirFS("../..")

func built(t *testing.T) map[string]string {
	t.Helper()
	files, err := build(repository)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for name, content := range files {
		texts[name] = string(content)
	}
	return texts
}

func wantParts(t *testing.T, name, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s has no %q", name, part)
		}
	}
}

// Each link of the documentation leads to a page, a heading or a file: a site with a link that does not is not made.
func TestSite(t *testing.T) {
	t.Parallel()
	files := built(t)
	wantParts(t, "the first page", files["index.html"], "<h1 id=\"watership\">Watership</h1>", `src="docs/images/console-group.png"`,
		`href="docs/concepts.html"`, `href="docs/index.html"`, `<link rel="alternate" href="README.md" type="text/markdown">`)
	wantParts(t, "a page below", files["docs/guides/consumers.html"], `href="../../site.css"`, `href="../../docs/troubleshooting.html"`,
		`aria-current="page">Consumers in any language</a>`, "<details class=\"sections\">")
	wantParts(t, "a page with a table", files["docs/limits.html"], `<div class="wide" tabindex="0"><table>`, `href="concepts.html#where-the-copies-are"`)
	wantParts(t, "the list for programs", files["llms.txt"], "# Watership\n\n> ", "\n## Run it\n", "- [Troubleshooting by symptom](docs/troubleshooting.md)\n", "(README.md#what-it-costs-and-what-else-there-is)")
	for name := range files {
		page := strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, "docs/decisions/") && name != contentsPage
		if page && !strings.Contains(files["llms.txt"], "("+name) {
			t.Errorf("%s does not list %s", contentsPage, name)
		}
		if strings.HasSuffix(name, ".go") {
			t.Errorf("the site has the source %s, which Go would take for a part of this module", name)
		}
	}
	for _, name := range []string{"docs/troubleshooting.md", "docs/images/outage.svg", "docs/watership.example.yaml", "LICENSE", "deploy/prometheus/rules.yml", "console.css", "docs.css", "icon.svg", "site.css", "search.js"} {
		if files[name] == "" {
			t.Errorf("the site has no %s", name)
		}
	}
}

func TestSiteWithLinksThatLeadNowhere(t *testing.T) {
	t.Parallel()
	_, err := build(fstest.MapFS{
		"README.md":      {Data: []byte("# A\n\n[b](docs/b.md#there) [c](docs/c.md) [d](docs/README.md#not-there) [e](https://example.com/e.md)\n")},
		"docs/README.md": {Data: []byte("# D\n\n## There\n")},
		"docs/b.md":      {Data: []byte("# B\n\n## There\n")},
	})
	if want := "README.md: the link docs/c.md leads to no file: open docs/c.md: file does not exist\nREADME.md: docs/README.md has no heading for #not-there"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
