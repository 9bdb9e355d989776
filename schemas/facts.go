package schemas

import "time"

// Fact is the little of an event that says what it is about. A store reads it
// without loading the document, so a hundred thousand take seconds.
type Fact struct {
	EventID     string
	Sequence    int64
	Time        time.Time // to the millisecond, as it is searched
	Action      Action    // of a quarantined event: what it stands for
	Fingerprint string
	MessageID   string // the publisher's
	Message     string // the instance id
	Queue       string
	Class       string
	ErrorType   string
	ErrorGroup  string
	Replay      string // the job
	ReplayOf    string // the event that was sent again, or discarded
}

// Fact is what a store reads of the event, once it is stored.
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

// Among are values, one of which a field has.
type Among struct {
	Field  string   // a keyword
	Values []string // at most 65,536, which is Elasticsearch's bound
}
