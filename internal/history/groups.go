package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Kind has the values that the failures of a group share.
type Kind struct {
	Queue string `json:"queue"`
	Class string `json:"class,omitempty"`
	Type  string `json:"type,omitempty"`
	Group string `json:"error_group"`
}

// KindOf returns the kind of a failure.
func KindOf(failure eventstore.EventSummary) Kind {
	return Kind{Queue: failure.Queue, Class: failure.Class, Type: failure.ErrorType, Group: failure.ErrorGroup}
}

// Group has the failures of a kind.
type Group struct {
	Kind
	Count   int       `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Example string    `json:"example"` // an id of the newest message, for Find
	Query   string    `json:"query"`   // finds the failures, including resolved ones

	Histogram Histogram `json:"histogram"`
}

// Groups returns the unresolved failures that match a query by their kinds, the most
// frequent first.
func (f Failures) Groups(ctx context.Context, node kql.Node) ([]*Group, error) {
	groups := map[Kind]*Group{}
	for failure, err := range f.Open(ctx, node) {
		if err != nil {
			return nil, err
		}
		kind := KindOf(failure)
		if groups[kind] == nil {
			groups[kind] = &Group{Kind: kind, First: failure.Time, Query: kind.Query().String()}
		}
		groups[kind].add(failure)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.Query, b.Query))
	}), nil
}

// SortByLast sorts groups, those with the newest failures first.
func SortByLast(groups []*Group) {
	slices.SortStableFunc(groups, func(a, b *Group) int { return b.Last.Compare(a.Last) })
}

func (g *Group) add(failure eventstore.EventSummary) {
	g.Count++
	g.Histogram.add(failure.Time, 1)
	if failure.Time.Before(g.First) {
		g.First = failure.Time
	}
	if !failure.Time.Before(g.Last) {
		g.Last = failure.Time
		g.Example = cmp.Or(failure.MessageID, failure.Message, failure.EventID)
	}
}

// Query returns a query for the failures of a kind, including resolved ones.
func (k Kind) Query() kql.Node {
	all := kql.And{kql.FieldIs("event.action", string(schemas.Poisoned))}
	if k.Type == string(schemas.Quarantined) {
		all = kql.And{GivenUp()}
	}
	for _, part := range []struct{ field, value string }{
		{"watership.queue", k.Queue}, {"watership.class", k.Class}, {"error.type", k.Type}, {"watership.error_group", k.Group},
	} {
		if part.value == "" {
			all = append(all, kql.Not{Node: kql.Exists{Field: kql.Pattern{part.field}}})
		} else {
			all = append(all, kql.FieldIs(part.field, part.value))
		}
	}
	return all
}
