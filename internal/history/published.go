package history

import (
	"slices"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// PublishedByDefault returns a query for the published events that a query matches, including
// those in quarantine. A query that names an action stays as it is. The query is resolved.
func PublishedByDefault(query kql.Node) kql.Node {
	if namesAction(query) {
		return query
	}
	published := kql.Or{
		kql.FieldIs("event.action", string(schemas.Published)), kql.FieldIs("watership.quarantined_action", string(schemas.Published)),
	}
	if _, all := query.(kql.All); all {
		return published
	}
	return kql.And{published, query}
}

func namesAction(query kql.Node) bool {
	named := false
	kql.Rewrite(query, func(leaf kql.Node) kql.Node {
		var field kql.Pattern
		switch n := leaf.(type) {
		case kql.Is:
			field = n.Field
		case kql.Exists:
			field = n.Field
		case kql.Range:
			field = n.Field
		}
		named = named || slices.Contains([]string{"event.action", "watership.quarantined_action"}, field.Text())
		return leaf
	})
	return named
}
