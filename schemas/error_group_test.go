package schemas

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestErrorGroup(t *testing.T) {
	for message, want := range map[string]string{
		"":                                  "",
		"no such table: violins":            "no such table: violins",
		"order 4711 of customer c-17":       "order # of customer #",
		"took 1.5s of 2s, -0.25 too long":   "took # of #, # too long",
		"dial tcp 10.0.0.7:8080: refused":   "dial tcp #:#: refused",
		"at main.go:17 in v1.2.3-rc.1":      "at main.go:# in #.#",
		"the end. 3 more... .5 5.":          "the end. # more... .# #.",
		"id 550e8400-e29b-41d4-a716-446655": "id #",
		"first line 1\nsecond line":         "first line #",
		"größe 7 zu groß":                   "größe # zu groß",

		"http://a:80/b answered 404 Not Found": "http://a:#/b answered 404 Not Found",
		"Request failed with status code 503":  "Request failed with status code 503",
		"HTTP 500 for order 500":               "HTTP 500 for order #",
		"code: 1062, status 4711":              "code: #, status #",
		"barcode 123, status 12a, code 20.5":   "barcode #, status #, code #",
	} {
		if got := (Failure{Message: message}).Group(); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
	for message, want := range map[string]string{
		"no queue 'orders-2' for order 7": "no queue 'orders-2' for order #",
		"orders-22, orders-2":             "#, orders-2",
		"shop.v2: orders-2.7":             "shop.v2: orders-2.#",
	} {
		if got := (Failure{Message: message}).Group("orders-2", "", "shop.v2"); got != want {
			t.Errorf("%q with names: %q, want %q", message, got, want)
		}
	}
	if got := (Failure{Message: strings.Repeat("ü", 1000)}).Group(); len(got) > errorGroupLimit || !utf8.ValidString(got) {
		t.Errorf("of a long one: %d bytes, %q", len(got), got)
	}
}
