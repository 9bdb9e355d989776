package operation

import (
	"net/http"
	"net/url"
	"strings"
)

// Mux is an http.ServeMux of which a segment of a path can be any text. An http.ServeMux takes one
// that is an escaped slash for the end of the path: here it gets the byte 0 after the slash, and
// loses it before the handler sees it.
type Mux struct{ mux http.ServeMux }

// HandleFunc registers a handler for a pattern of http.ServeMux.
func (m *Mux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	names := variables(pattern)
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range names {
			r.SetPathValue(name, unmark(r.PathValue(name)))
		}
		handler(w, withoutMark(r))
	})
}

// Pattern returns the pattern of the handler of a request; "": it has none.
func (m *Mux) Pattern(r *http.Request) string {
	_, pattern := m.mux.Handler(withMark(r))
	return pattern
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mux.ServeHTTP(w, withMark(r))
}

// variables returns the names of the variables of a pattern.
func variables(pattern string) (names []string) {
	for segment := range strings.SplitSeq(pattern, "/") {
		if name, is := strings.CutPrefix(segment, "{"); is {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

const (
	mark        = "\x00"
	escapedMark = "%00"
)

// isSlash reports whether a segment is a slash, which may have marks.
func isSlash(segment string) bool {
	rest, is := strings.CutPrefix(segment, "/")
	return is && strings.Trim(rest, mark) == ""
}

// unmark removes the mark from a segment that has one.
func unmark(segment string) string {
	if isSlash(segment) {
		return strings.TrimSuffix(segment, mark)
	}
	return segment
}

// withMark returns a request with a mark in each segment of its path that is a slash.
func withMark(r *http.Request) *http.Request {
	return withSegments(r, func(escaped string) string { return escaped + escapedMark })
}

// withoutMark returns the request as it was before withMark.
func withoutMark(r *http.Request) *http.Request {
	return withSegments(r, func(escaped string) string { return strings.TrimSuffix(escaped, escapedMark) })
}

// withSegments returns a request with other segments where its path has a slash as one.
func withSegments(r *http.Request, other func(escaped string) string) *http.Request {
	if !strings.Contains(r.URL.Path, "//") { // no segment of the path begins with a slash
		return r
	}
	segments, changed := strings.Split(r.URL.EscapedPath(), "/"), false
	for i, segment := range segments {
		if name, err := url.PathUnescape(segment); err == nil && isSlash(name) {
			segments[i], changed = other(segment), true
		}
	}
	if !changed {
		return r
	}
	to := *r.URL
	to.RawPath = strings.Join(segments, "/")
	path, err := url.PathUnescape(to.RawPath)
	if err != nil {
		return r
	}
	to.Path = path
	with := r.WithContext(r.Context())
	with.URL = &to
	return with
}
