package operation

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A name in a path may be any text, and one of slashes as well.
func TestMuxNames(t *testing.T) {
	type asked struct{ pattern, name, path string }
	var got asked
	var mux Mux
	for _, pattern := range []string{"GET /messages/{id}", "GET /messages/{id}/body", "GET /messages", "GET /{$}"} {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) {
			got = asked{pattern, r.PathValue("id"), r.URL.EscapedPath()}
		})
	}
	ask := func(path string) asked {
		t.Helper()
		got = asked{}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		mux.ServeHTTP(httptest.NewRecorder(), r)
		if pattern := mux.Pattern(r); pattern != got.pattern {
			t.Errorf("%s has pattern %q, and was served by %q", path, pattern, got.pattern)
		}
		return got
	}
	for _, name := range []string{"m", ".", "..", "/", "//", "/\x00", "/\x00\x00", "\x00", "/a", "a/", "a//b", "%2F", "%", "?#", "ä", "\xff"} {
		path := "/messages/" + Segment(name)
		if got := ask(path); got != (asked{"GET /messages/{id}", name, path}) {
			t.Errorf("%q: %+v", name, got)
		}
		if got := ask(path + "/body"); got != (asked{"GET /messages/{id}/body", name, path + "/body"}) {
			t.Errorf("the body of %q: %+v", name, got)
		}
	}
	for path, pattern := range map[string]string{"/messages": "GET /messages", "/": "GET /{$}", "/messages/%2F/%2F": "", "/%2F": "", "/messages/": ""} {
		if got := ask(path); got.pattern != pattern {
			t.Errorf("%s: %+v", path, got)
		}
	}
}
