package schemas_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/watershipmq/watership/schemas"
)

func TestErrorGroup(t *testing.T) {
	for message, want := range map[string]string{
		"":                                  "",
		"no such table: violins":            "no such table: violins",
		"order 4711 of customer c-17":       "order # of customer #",
		"took 1.5s of 2s, -0.25 too long":   "took # too long",
		"dial tcp 10.0.0.7:8080: refused":   "dial tcp #: refused",
		"at main.go:17 in v1.2.3-rc.1":      "at main.go:# in #",
		"id 550e8400-e29b-41d4-a716-446655": "id #",
		"first line 1\nsecond line":         "first line #",
		"größe 7 zu groß":                   "größe # zu groß",

		"http://a:80/b answered 404 Not Found": "http://a/b answered 404 not found",
		"Request failed with status code 503":  "request failed with status code 503",
		"HTTP 500 for order 500":               "HTTP 500 for order #",
		"discount code 123, status 409":        "discount code #, status 409",

		"http://a answered 400 Bad Request: {\n \"error\": \"unknown currency\"\n}": "http://a answered 400 bad request: unknown currency",
	} {
		if got := (schemas.Failure{Message: message}).ErrorGroup(); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
	for _, named := range []struct{ group, want string }{
		{"sold out", "sold out"}, {" of\ntwo lines\x00 ", "of two lines"}, {strings.Repeat("ü", 1000), strings.Repeat("ü", (512-3)/2) + "…"},
	} {
		if got := (schemas.Failure{Message: "no stock of item 17", Group: named.group}).ErrorGroup(); got != named.want {
			t.Errorf("named %q: %q", named.group, got)
		}
	}
	for message, want := range map[string]string{
		"no queue 'orders-2' for order 7": "no queue 'orders-2' for order #",
		"orders-22, orders-2":             "#, orders-2",
		"shop.v2: orders-2.7":             "shop.v2: orders-2.#",
	} {
		if got := (schemas.Failure{Message: message}).ErrorGroup("orders-2", "", "shop.v2"); got != want {
			t.Errorf("%q with names: %q, want %q", message, got, want)
		}
	}
	if got := (schemas.Failure{Message: strings.Repeat("ü", 1000)}).ErrorGroup(); len(got) > 512 || !utf8.ValidString(got) {
		t.Errorf("of a long one: %d bytes, %q", len(got), got)
	}
}
