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

// ByName returns a query for events by message id, fingerprint, instance id or event
// id; nil for no names.
func ByName(names []string) kql.Node {
	var either kql.Or
	for _, name := range names {
		either = append(either, kql.FieldIs("watership.fingerprint", name))
		if isFingerprint(name) {
			continue
		}
		either[len(either)-1] = kql.FieldIs("messaging.message.id", name)
		either = append(either, kql.FieldIs("watership.message", name), kql.FieldIs("event.id", name))
	}
	if len(either) == 0 {
		return nil
	}
	return either
}

const fingerprintSize = len("v1:") + 64

func isFingerprint(name string) bool { return len(name) == fingerprintSize && name[:3] == "v1:" }
