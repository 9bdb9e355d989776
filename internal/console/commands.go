package console

import (
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/server/kibana"
)

// commands are lines for a shell that find the events of a page.
type commands struct{ Search, Curl string }

func (c searchPages) commands(r *http.Request, m messageList) commands {
	return commands{m.searchCommand(), m.curlCommand(c.address(r), access.FromContext(r.Context()).Method != access.ByLoopback)}
}

// searchCommand returns the command that searches for the same events.
func (m messageList) searchCommand() string {
	f, line := m.Filter, []string{"watership", "search"}
	if f.DependsOnZone() {
		line = append([]string{"TZ=" + wording.Quoted(f.Zone.String())}, line...)
	}
	isFlag := strings.HasPrefix(f.Query, "-")
	if f.Query != "" && !isFlag {
		line = append(line, wording.Quoted(f.Query))
	}
	for _, flag := range []struct{ name, value string }{{"--since", f.Last()}, {"--from", f.From}, {"--to", f.To}, {"--fields", m.Fields}} {
		if flag.value != "" {
			line = append(line, flag.name, wording.Quoted(flag.value))
		}
	}
	if !m.Events {
		line = append(line, "--messages")
	}
	if isFlag {
		line = append(line, "--", wording.Quoted(f.Query))
	}
	return strings.Join(line, " ")
}

// curlCommand returns the request to the API.
func (m messageList) curlCommand(address string, signsIn bool) string {
	f, path := m.Filter, messages.ListMessages.Path
	if m.Events {
		path = messages.SearchEvents.Path
	}
	line := "curl -sG " + wording.Quoted(address+httpapi.Prefix+path)
	if signsIn {
		line += ` -H "Authorization: Bearer $WATERSHIP_TOKEN"`
	}
	zone := ""
	if f.DependsOnZone() {
		zone = f.Zone.String()
	}
	for _, parameter := range []struct{ name, value string }{
		{"query", f.Query}, {"since", f.Last()}, {"from", f.From}, {"to", f.To}, {"zone", zone}, {"fields", m.Fields},
	} {
		if parameter.value != "" {
			line += " --data-urlencode " + wording.Quoted(parameter.name+"="+parameter.value)
		}
	}
	return line
}

// address returns the address of the server, as its browsers use it.
func (c searchPages) address(r *http.Request) string {
	if c.config.Server != nil {
		return strings.TrimSuffix(c.config.Server.String(), "/")
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// discover returns the link to Kibana's Discover with the same query, whose names are full
// there, and the same period; "" for a query that Kibana cannot have.
func (m messageList) discover(cfg Config) string {
	node := m.Known.resolve(m.Filter.Query)
	if node == nil {
		return ""
	}
	query := node.String()
	if _, all := node.(kql.All); all {
		query = ""
	}
	from, to := "now-10y", "now"
	if since := m.Filter.Last(); since != "" {
		from = "now" + regexp.MustCompile(`\d+[a-zA-Z]`).ReplaceAllString(since, "-$0")
	}
	if over, err := m.Filter.Selected(time.Now()); err == nil {
		if m.Filter.From != "" {
			from = utcText(over.Begin)
		}
		if m.Filter.To != "" {
			to = utcText(over.End)
		}
	}
	return kibana.DiscoverURL(cfg.Kibana, cfg.Stream, query, from, to)
}
