// Package eventfilter has the criteria by which operations of the HTTP API select events.
package eventfilter

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// Filter selects events. All criteria must match.
type Filter struct {
	Query string `query:"query" json:"query,omitempty" maxLength:"4000" doc:"Query in Kibana's language (KQL); none: all events" example:"action: poisoned and headers.tenant: acme"`
	Since string `query:"since" json:"since,omitempty" maxLength:"100" doc:"Only events of the last 15m, 1h30m, 7d, and so on" example:"1h"`
	From  string `query:"from" json:"from,omitempty" maxLength:"100" doc:"Only events at or after this time, such as 2026-05-04T03:00:00Z or now-1d/d"`
	To    string `query:"to" json:"to,omitempty" maxLength:"100" doc:"Only events before this time"`
	Zone  string `query:"zone" json:"zone,omitempty" maxLength:"100" doc:"Time zone of the times without one, by its name or its offset from UTC; none: the zone of the server" example:"Europe/Berlin"`
}

// QueryFilter is a Filter in the query of a URL.
type QueryFilter struct {
	Filter
	DSL string `query:"dsl" maxLength:"4000" doc:"Query in Elasticsearch's query DSL, as JSON"`
}

// Text returns the query. A star alone searches all fields of an event, with bodies, which
// not every caller may read; it means every event.
func (f Filter) Text() string {
	if strings.TrimSpace(f.Query) == "*" {
		return "*: *"
	}
	return f.Query
}

// HasQuery reports whether a filter has a query. A blank one finds all events, so that operations which
// act on what they find want the query "*" instead.
func (f Filter) HasQuery() bool { return strings.TrimSpace(f.Query) != "" }

// HasQuery reports whether a filter has a query in one of the languages.
func (f QueryFilter) HasQuery() bool { return f.Filter.HasQuery() || strings.TrimSpace(f.DSL) != "" }

// Object names what a filter finds in an audit event.
func (f QueryFilter) Object() string {
	parts := []string{f.Query, f.DSL}
	for _, part := range []struct{ name, value string }{{"since", f.Since}, {"from", f.From}, {"to", f.To}} {
		if part.value != "" {
			parts = append(parts, part.name+" "+part.value)
		}
	}
	return cmp.Or(strings.Join(slices.DeleteFunc(parts, func(part string) bool { return strings.TrimSpace(part) == "" }), " "), "*")
}

// Period returns the period of a filter.
func (f Filter) Period(zone *time.Location) system.Period {
	return system.Period{Since: f.Since, From: f.From, To: f.To, Zone: zone}
}

// Location returns the time zone of times without one.
func (f Filter) Location() (*time.Location, error) {
	if f.Zone == "" {
		return time.Local, nil
	}
	return ParseZone("zone", f.Zone)
}

// ParseZone returns the zone with a name or an offset from UTC, as a member of a request has it; "" is UTC.
func ParseZone(member, text string) (*time.Location, error) {
	if at, err := time.Parse("-07:00", text); err == nil {
		return at.Location(), nil
	}
	zone, err := time.LoadLocation(text)
	if err != nil {
		return nil, problem.BadRequest(member+": "+err.Error(), "Give a name of the IANA time zone database, such as Europe/Berlin, or an offset such as +02:00.")
	}
	return zone, nil
}

// Selection returns the events that match and that the caller may see.
func (f QueryFilter) Selection(ctx context.Context, a *system.System) (eventstore.Selection, error) {
	node, err := f.Node(ctx, a, f.DSL)
	return eventstore.Selection{Query: node}, err
}

// Node returns the restricted query of a filter, and of a query in DSL unless it is empty. A
// search of bodies is recorded.
func (f Filter) Node(ctx context.Context, a *system.System, dsl string) (kql.Node, error) {
	zone, err := f.Location()
	if err != nil {
		return nil, err
	}
	node, err := a.ParseQueryIn(f.Text(), zone)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(dsl) != "" {
		raw, err := ParseDSL(ctx, dsl)
		if err != nil {
			return nil, err
		}
		node = kql.And{node, raw}
	}
	if node, err = f.Period(zone).Limit(node); err != nil {
		return nil, err
	}
	restricted, err := access.FromContext(ctx).Restrict(node)
	if err != nil {
		return nil, err
	}
	return restricted, access.SearchBodies(ctx, node, strings.TrimSpace(f.Query+" "+dsl))
}

// ParseDSL reads a query of Elasticsearch. It may look up documents of other indices, so
// it is for callers without limits.
func ParseDSL(ctx context.Context, text string) (kql.Raw, error) {
	if caller := access.FromContext(ctx); caller.Limited() || !caller.Bodies {
		return kql.Raw{}, problem.Forbidden("a query in Elasticsearch's language needs access to all queues, exchanges and bodies", "Write the query in KQL.")
	}
	raw, err := elastic.ParseQuery([]byte(text))
	if err != nil {
		return raw, problem.BadRequest("dsl: "+err.Error(), "")
	}
	return raw, nil
}

// TextOfDSL returns the JSON of a query in DSL; "" for none.
func TextOfDSL(dsl map[string]any) string {
	if len(dsl) == 0 {
		return ""
	}
	text, _ := json.Marshal(dsl) // it came from JSON
	return string(text)
}
