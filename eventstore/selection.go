package eventstore

import (
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Order is the order in which events are read.
type Order int

// The orders: newest first by time, or in the order in which the indexer received
// the events.
const (
	NewestFirst Order = iota
	BySequence
)

// Selection selects events, and the way to read them. The zero value reads all
// events with all fields, newest first.
type Selection struct {
	Query       kql.Node // nil matches every event
	Order       Order
	Limit       int    // 0: no limit
	After       Cursor // continue after this place
	UpTo        int64  // highest sequence; 0: no limit
	WithoutBody bool   // omits the body, to read many events fast
}

// Cursor is a place in an order. It is valid longer than a point in time of
// Elasticsearch. The zero value is before every event.
type Cursor struct {
	Sequence int64     `json:"sequence"`
	EventID  string    `json:"event_id"`
	Time     time.Time `json:"time,omitzero"` // to the millisecond; for NewestFirst alone
}

// CursorAt returns the place of an event, in any order.
func CursorAt(e schemas.Event) Cursor {
	return Cursor{Sequence: e.Sequence, EventID: e.EventID, Time: e.Time.UTC().Truncate(time.Millisecond)}
}

// FieldIn is a terms filter: the field has one of the values.
type FieldIn struct {
	Field  string   // a keyword
	Values []string // at most 65,536, the limit of Elasticsearch
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
