package replayer

import (
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

func and(a, b kql.Node) kql.Node { return kql.And{a, b} }

// withActions returns a query for events with one of the actions, including those in
// quarantine.
func withActions(actions ...schemas.Action) kql.Node {
	var either kql.Or
	for _, action := range actions {
		either = append(either, kql.FieldIs("event.action", string(action)), kql.FieldIs("watership.quarantined_action", string(action)))
	}
	return either
}

// publishedWithoutID returns a query for the `published` events of messages without an
// id, including those in quarantine.
func publishedWithoutID() kql.Node {
	return kql.And{
		withActions(schemas.Published),
		kql.Not{Node: kql.Exists{Field: kql.Pattern{"messaging.message.id"}}},
	}
}
