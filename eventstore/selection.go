package eventstore

import (
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Order is the order in which events are read.
type Order int

// The orders: newest first by time; in the order in which the indexer received the
// events; or the slowest first by a time of work, without the events that have none.
const (
	NewestFirst Order = iota
	BySequence
	SlowestInQueue
	SlowestInHandler
	SlowestInTotal
)

// Time returns the field of the time by which an order sorts; "" for the other orders.
func (o Order) Time() string {
	switch o {
	case SlowestInQueue:
		return "watership.queue_time"
	case SlowestInHandler:
		return "event.duration"
	case SlowestInTotal:
		return "watership.total_time"
	}
	return ""
}

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

	// The times of work, for the orders by them.
	QueueTime time.Duration `json:"queue_time,omitzero"`
	Duration  time.Duration `json:"duration,omitzero"`
	TotalTime time.Duration `json:"total_time,omitzero"`
}

// Took returns the time of work by which an order sorts.
func (c Cursor) Took(by Order) time.Duration {
	switch by {
	case SlowestInQueue:
		return c.QueueTime
	case SlowestInHandler:
		return c.Duration
	}
	return c.TotalTime
}

// CursorAt returns the place of an event, in any order.
func CursorAt(e schemas.Event) Cursor {
	return Cursor{
		Sequence: e.Sequence, EventID: e.EventID, Time: e.Time.UTC().Truncate(time.Millisecond),
		QueueTime: e.QueueTime, Duration: e.Duration, TotalTime: e.TotalTime,
	}
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
