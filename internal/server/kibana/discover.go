package kibana

import (
	"fmt"
	"net/url"
	"strings"
)

// DiscoverURL returns a link to Discover at the address of Kibana, with a query in KQL that
// has full names, and a period in Kibana's date math. stream is the id of the data view.
func DiscoverURL(address *url.URL, stream, query, from, to string) string {
	page := *address
	page.User = nil
	global := fmt.Sprintf("(time:(from:%s,to:%s))", rison(from), rison(to))
	search := fmt.Sprintf("(index:%s,query:(language:kuery,query:%s))", rison(stream), rison(query))
	return page.JoinPath("app", "discover").String() + "#/?_g=" + escapeHash(global) + "&_a=" + escapeHash(search)
}

// rison writes a text as Rison, the notation of values in Kibana's URLs.
func rison(text string) string {
	return "'" + strings.NewReplacer("!", "!!", "'", "!'").Replace(text) + "'"
}

// escapeHash escapes a parameter after the # of a URL, where a plus is no space.
func escapeHash(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
