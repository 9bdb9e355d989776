package config

import (
	"strings"
	"testing"
)

// The page of a trace is an address that a browser opens, and has the id of a trace once, behind the host.
func TestTracePages(t *testing.T) {
	for _, good := range []string{"", "https://jaeger.example/trace/{trace_id}", "http://localhost:3000/explore?left=%7B%22q%22:%22{trace_id}%22%7D", "https://t.example/#/{trace_id}"} {
		if got, err := tracePage(good); got != good || err != nil {
			t.Errorf("%q: %q, %v", good, got, err)
		}
	}
	for _, bad := range []string{
		"https://jaeger.example/trace/", "https://{trace_id}.example/", "javascript:alert({trace_id})", "//jaeger.example/{trace_id}", "https:///{trace_id}",
		"https://a:b@jaeger.example/{trace_id}", "https://jaeger.example/{trace_id}/{trace_id}", "https://jaeger.example/{span_id}/{trace_id}", "https://j.example/{trace_id}" + strings.Repeat("a", 2000),
	} {
		if _, err := tracePage(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
