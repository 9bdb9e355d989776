package history

import (
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// The fields with times of work, in nanoseconds.
const (
	HandlerTime = "event.duration"
	QueueTime   = "watership.queue_time"
	TotalTime   = "watership.total_time"
)

// Attempts returns a query for the events of attempts, of which some have times of work.
func Attempts() kql.Node {
	var either kql.Or
	for _, action := range []schemas.Action{schemas.Handled, schemas.RetryScheduled, schemas.Poisoned} {
		either = append(either, kql.FieldIs("event.action", string(action)))
	}
	return either
}
