package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/rabbit"
)

// server reads the URL of a server, or a list with the URL of each node of a cluster.
func server(parse func(string) (URL, error), into *URL) read {
	return func(l *loader, path string, n node) {
		if n.Kind != sequence {
			scalar(parse, into)(l, path, n)
			return
		}
		var urls []URL
		scalars(parse, &urls)(l, path, n)
		if len(urls) == 0 {
			l.fail(path, n, "expected at least one URL")
			return
		}
		for i, each := range urls {
			if l.failed[element(path, i)] {
				return // the mistake is reported
			}
			if mistake := each.nodeOf(urls[:i]); mistake != "" {
				l.fail(element(path, i), n.Items[i], mistake)
				return
			}
		}
		nodes := make([]string, len(urls)-1)
		for i, other := range urls[1:] {
			nodes[i] = other.host()
		}
		*into = NewURL(urls[0].full, nodes...)
	}
}

// nodeOf returns why the URL cannot be a further node of the cluster that others belong to; "" if it can.
func (u URL) nodeOf(others []URL) string {
	switch {
	case len(others) == 0:
		return ""
	case u.host() == "" || others[0].host() == "":
		return "expected one value, and no list, unless it has the URLs of the nodes of a cluster"
	case slices.ContainsFunc(others, func(o URL) bool { return o.host() == u.host() }):
		return "expected each node once"
	}
	host := others[0].host()
	first, err := rabbit.NodeURL(others[0].full, host)
	same, otherErr := rabbit.NodeURL(u.full, host)
	if err != nil || otherErr != nil {
		return "expected a URL"
	}
	if same != first {
		return "expected the scheme, the login, the path and the parameters of the first URL: the nodes of a cluster differ in host and port only"
	}
	return ""
}

// node returns the URLs of all nodes as a value.
func (u URL) node(origin Origin) node {
	n := node{Kind: sequence, Origin: origin}
	for _, each := range u.RevealAll() {
		n.Items = append(n.Items, textNode(each, origin))
	}
	return n
}

// host returns host:port as they are written; "" for a file and the embedded broker.
func (u URL) host() string {
	parsed, err := url.Parse(u.full)
	if err != nil {
		return ""
	}
	return parsed.Host
}

// nextURL matches what separates the URLs of a list in a variable or a flag. A comma in a
// password is followed by no scheme.
var nextURL = regexp.MustCompile(`,\s*[a-z]+://`)

// splitURLs returns the URLs of a text with commas between.
func splitURLs(text string) []string {
	var urls []string
	for {
		at := nextURL.FindStringIndex(text)
		if at == nil {
			return append(urls, strings.TrimSpace(text))
		}
		urls = append(urls, strings.TrimSpace(text[:at[0]]))
		text = text[at[0]+1:]
	}
}
