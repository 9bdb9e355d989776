package schemas

import "time"

// Fact is a summary of an event. A store reads it without loading the document, so
// a hundred thousand take seconds.
type Fact struct {
	EventID     string
	Sequence    int64
	Time        time.Time // to the millisecond, the precision of the date field
	Action      Action    // of a quarantined event: the action of the event that it replaces
	Fingerprint string
	MessageID   string // the publisher's
	Message     string // the instance id
	Queue       string
	Class       string
	ErrorType   string
	ErrorGroup  string
	Replay      string // the id of the replay job
	ReplayOf    string // the id of the event that was replayed or discarded
}

// Fact returns the summary that a store returns for the event once it is stored.
func (e Event) Fact() Fact {
	action := e.Action
	if action == Quarantined {
		action = e.QuarantinedAction
	}
	return Fact{
		EventID: e.EventID, Sequence: e.Sequence, Time: e.Time.UTC().Truncate(time.Millisecond), Action: action,
		Fingerprint: e.Fingerprint, MessageID: e.Envelope.Properties.MessageID, Message: e.Message, Queue: e.Queue,
		Class: e.Failure.Class, ErrorType: e.Failure.Type, ErrorGroup: e.errorGroup(),
		Replay: e.Replay, ReplayOf: e.ReplayOf,
	}
}

func (e Event) errorGroup() string {
	return ErrorGroup(e.Failure.Message, e.Queue, e.Envelope.Exchange)
}

// Among is a terms filter: the field has one of the values.
type Among struct {
	Field  string   // a keyword
	Values []string // at most 65,536, the limit of Elasticsearch
}
