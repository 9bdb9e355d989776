package replayer

import (
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

func is(field, value string) query.Node {
	return query.Is{Field: query.Pattern{field}, Value: query.Value{Pattern: query.Pattern{value}, Quoted: true}}
}

func both(a, b query.Node) query.Node { return query.And{a, b} }

// eitherHappened finds events of actions, also those that were quarantined.
func eitherHappened(actions ...schemas.Action) query.Node {
	var either query.Or
	for _, action := range actions {
		either = append(either, is("event.action", string(action)), is("watership.quarantined_action", string(action)))
	}
	return either
}

// anonymousPublished are the `published` events of messages without an id, also
// of those that were quarantined.
func anonymousPublished() query.Node {
	return query.And{
		eitherHappened(schemas.Published),
		query.Not{Node: query.Exists{Field: query.Pattern{"messaging.message.id"}}},
	}
}

// ofMessages are the events of the messages on a page for which wanted holds;
// nil if there are none.
func ofMessages(page []found, wanted func(found) bool) query.Node {
	var either query.Or
	seen := map[string]bool{}
	for _, f := range page {
		if fingerprint := f.event.Fingerprint; f.err == nil && !seen[fingerprint] && wanted(f) {
			seen[fingerprint] = true
			either = append(either, is("watership.fingerprint", fingerprint))
		}
	}
	if len(either) == 0 {
		return nil
	}
	return either
}

// Of selects events by the names of their messages: message ids, fingerprints,
// the ids that messages get at their first failure, or ids of events. It is nil
// for no names.
func Of(names []string) query.Node {
	var either query.Or
	for _, name := range names {
		either = append(either, is("watership.fingerprint", name))
		if isFingerprint(name) {
			continue
		}
		either[len(either)-1] = is("messaging.message.id", name)
		either = append(either, is("watership.message", name), is("event.id", name))
	}
	if len(either) == 0 {
		return nil
	}
	return either
}

const fingerprintSize = len("v1:") + 64

func isFingerprint(name string) bool { return len(name) == fingerprintSize && name[:3] == "v1:" }
