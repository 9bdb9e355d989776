package kibana

import (
	"net/url"
	"strings"
	"testing"
)

// Kibana reads back what a link has, however odd the query is.
func TestDiscoverURL(t *testing.T) {
	address, err := url.Parse("https://elastic:secret@kibana.example/base/")
	if err != nil {
		t.Fatal(err)
	}
	const query = `error.message: "it's 100% (a & b) #1!" or labels.x: é+*`
	link := DiscoverURL(address, "shop-messages", query, "now-24h", "2026-05-04T03:00:00.000Z")
	page, hash, _ := strings.Cut(link, "#/?")
	if page != "https://kibana.example/base/app/discover" {
		t.Errorf("got %s", page)
	}
	values, err := url.ParseQuery(strings.ReplaceAll(hash, "+", "%2B")) // a plus is none
	if err != nil {
		t.Fatal(err)
	}
	if got, want := values.Get("_g"), "(time:(from:'now-24h',to:'2026-05-04T03:00:00.000Z'))"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := `(index:'shop-messages',query:(language:kuery,query:'error.message: "it!'s 100% (a & b) #1!!" or labels.x: é+*'))`
	if got := values.Get("_a"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
