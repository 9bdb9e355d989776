package console_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/docs"
	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/operation/access"
)

// reader gets pages of the documentation, which need no API.
func reader(t *testing.T) func(path string) *httptest.ResponseRecorder {
	t.Helper()
	pages, err := console.New(console.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return func(path string) *httptest.ResponseRecorder {
		got := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		pages.ServeHTTP(got, request.WithContext(access.NewContext(request.Context(), access.Identity{Name: "ada", Role: access.Viewer})))
		return got
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	read := reader(t)
	for path, parts := range map[string][]string{
		"/docs":                 {"<h1 id=\"documentation\">", `<a href="/docs/troubleshooting">`, "<title>Documentation"},
		"/docs/troubleshooting": {`<h3 id="dead-letters">`, `<a href="/docs">All pages</a>`, `<a href="/docs/routes#outages">`},
		"/docs/consumers":       {`href="/docs/protocol`},
		"/docs/concepts":        {`<img src="/docs/images/outage.svg" alt="`},
	} {
		got := read(path)
		for _, part := range parts {
			if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), part) {
				t.Errorf("%s: %d, no %s", path, got.Code, part)
			}
		}
	}
	if got := read("/docs/images/outage.svg"); got.Header().Get("Content-Type") != "image/svg+xml" || !strings.Contains(got.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("a picture: %v", got.Header())
	}
	for _, path := range []string{"/docs/nothing", "/docs/images/nothing.svg"} {
		if got := read(path); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
}

// Each link of the console to its documentation, and of its documentation, leads to a page and a heading of it.
func TestLinksToDocs(t *testing.T) {
	t.Parallel()
	read := reader(t)
	all, err := docs.Pages()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"/docs": read("/docs").Body.String()}
	for _, page := range all {
		texts["/docs/"+page.Name] = read("/docs/" + page.Name).Body.String()
	}
	sources := slices.Collect(maps.Values(templates(t)))
	for _, text := range texts {
		sources = append(sources, text)
	}
	links := 0
	for _, found := range regexp.MustCompile(`href="(/docs[^"#]*)(?:#([^"{]+))?"`).FindAllStringSubmatch(strings.Join(sources, "\n"), -1) {
		links++
		if text := texts[found[1]]; text == "" || found[2] != "" && !strings.Contains(text, ` id="`+found[2]+`"`) {
			t.Errorf("%s leads nowhere", found[0])
		}
	}
	if links < 100 {
		t.Errorf("%d links", links)
	}
}

// What a page without content says leads to the page that explains it, unless it only leads back.
func TestEmptyStatesNameAPage(t *testing.T) {
	t.Parallel()
	const back = 2 // nothing to discard, and no such action
	empty := regexp.MustCompile(`(?s)<(?:p|div) class="empty">.*?</(?:p|div)>`)
	all, without := 0, []string{}
	for file, text := range templates(t) {
		for _, block := range empty.FindAllString(text, -1) {
			if all++; !strings.Contains(block, `href="/docs/`) {
				without = append(without, file+": "+block)
			}
		}
	}
	if all < 15 || len(without) > back {
		t.Errorf("of %d, these name no page:\n%s", all, strings.Join(without, "\n"))
	}
}

// templates returns the templates of all pages by their files.
func templates(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"templates/*.html", "templates/parts/*.html"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
	}
	return texts
}
