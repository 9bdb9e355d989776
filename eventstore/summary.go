package eventstore

import (
	"time"

	"github.com/watershipmq/watership/schemas"
)

// EventSummary is a summary of an event. A store reads it without loading the document, so
// 100,000 take seconds.
type EventSummary struct {
	EventID     string
	Sequence    int64
	Time        time.Time      // to the millisecond, the precision of the date field
	Action      schemas.Action // of a quarantined event: the action of the event that it replaces
	Fingerprint string
	MessageID   string // the publisher's
	Message     string // the instance id
	Queue       string
	Class       string
	ErrorType   string
	ErrorGroup  string
	Replay      string // the id of the replay job
	ReplayOf    string // the id of the event that was replayed or discarded
	Stream      schemas.MessageStream
}

// Summarize returns the summary that a store returns for an event once it is stored.
func Summarize(e schemas.Event) EventSummary {
	return EventSummary{
		EventID: e.EventID, Sequence: e.Sequence, Time: e.Time.UTC().Truncate(time.Millisecond), Action: e.RecordedAction(),
		Fingerprint: e.Fingerprint, MessageID: e.Envelope.Properties.MessageID, Message: e.Message, Queue: e.Queue,
		Class: e.Failure.Class, ErrorType: e.Failure.Type,
		ErrorGroup: e.ErrorGroup(),
		Replay:     e.Replay, ReplayOf: e.ReplayOf, Stream: e.Stream,
	}
}
