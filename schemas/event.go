package schemas

import (
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas/internal/headertext"
)

// Action is the kind of an event.
type Action string

// The events in the life of a message.
const (
	Published      Action = "published"       // the tap has copied the message
	Handled        Action = "handled"         // a handler succeeded
	RetryScheduled Action = "retry_scheduled" // an attempt failed, another follows
	Poisoned       Action = "poisoned"        // no further attempt
	Replayed       Action = "replayed"        // published again by a replay job
	Discarded      Action = "discarded"       // an operator decided not to replay it
	Rescheduled    Action = "rescheduled"     // an operator changed the time of the next attempt
	Quarantined    Action = "quarantined"     // replaces a document that the store refused
	Dropped        Action = "dropped"         // about no message: messages may be missing from the record
	Paused         Action = "paused"          // about no message: the breaker of a route opened, or is still open
	Resumed        Action = "resumed"         // about no message: the breaker of a route closed
	Audited        Action = "audited"         // about no message: a user of the HTTP server acted, see State.Audit
	Triaged        Action = "triaged"         // about no message: an operator decided about a group of failures, see State.Triage
)

// OfNoMessage reports whether events of the action are about no message.
func (a Action) OfNoMessage() bool {
	return a == Dropped || a == Paused || a == Resumed || a == Audited || a == Triaged
}

// Outcome returns the value of event.outcome (ECS).
func (a Action) Outcome() string {
	switch a {
	case Handled, Replayed:
		return "success"
	case RetryScheduled, Poisoned, Quarantined:
		return "failure"
	}
	return "unknown"
}

// TimeSource is the origin of an event's time. The most reliable first: "event", the clock of the process that did the
// step; "broker", timestamp_in_ms, which a publisher can set, too; "publisher", the timestamp property or a header;
// "ingest", when the indexer received the message.
type TimeSource string

// Event is one step in the life of a message. The store writes it once.
type Event struct {
	State // EventID is the document's id

	Action     Action
	TimeSource TimeSource
	Sequence   int64     // microseconds; the order in which the indexer received the events, see Decoder
	Ingested   time.Time // when it was stored
	Source     string    // configured name of the RabbitMQ system
	VHost      string

	// ByPriority is whether the message has a priority, by which RabbitMQ may have
	// delivered its copy before copies of messages that were published earlier.
	ByPriority bool

	// QueueTime is how long the message was in its queue before the attempt, and TotalTime
	// how long after its publish it was handled. At least a nanosecond; zero: not known.
	QueueTime, TotalTime time.Duration

	Envelope Envelope
	BodySize int       // bytes, also where the event has no body
	BodyIn   BodyPlace // where the body is

	// Redacted is whether values of the event were replaced as it was recorded, see
	// DocumentFormat.Redact; Envelope.Redacted, whether values of the message were.
	Redacted bool

	// Sealed is the encrypted original of a redacted message, as DocumentFormat.Redact made it; it is
	// stored with the body. nil: the message has no sealed original.
	Sealed []byte

	// Subjects are the hashes of the persons whom a redacted message is about, as DocumentFormat.Redact
	// found them.
	Subjects []string

	QuarantinedAction  Action  // the action of the event that a quarantined event replaces
	QuarantinedFailure Failure // its failure; a quarantined event has the store's reason

	unique bool // the id has the sequence appended already
}

// TraceID returns the id of the trace that has the event: of the attempt's span, or else of the message's
// traceparent. It has 32 hexadecimal digits; "": none is known.
func (e Event) TraceID() string {
	if id := headertext.TraceID(e.Trace); id != "" {
		return id
	}
	return headertext.TraceID(header.Table(e.Envelope.Headers).Text("traceparent"))
}

// BodyPlace is the place where the body of an event is stored.
type BodyPlace string

// The places where a body can be.
const (
	BodyHere         BodyPlace = ""           // in the event itself
	BodyInPublished  BodyPlace = "published"  // in the `published` event of the same fingerprint
	BodyInUnstorable BodyPlace = "unstorable" // in the queue of messages too large for the store
)

// IDFromContent reports whether the event's id follows from its content alone, so
// that a second, equal message has the same id.
func (e Event) IDFromContent() bool {
	return e.RecordedAction() == Published && !e.unique && e.Envelope.Properties.MessageID != ""
}

func (e Event) appendSequence(id []byte) []byte {
	return strconv.AppendInt(append(id, ':'), e.Sequence, 10)
}

// WithUniqueID returns the event for another message that is equal to one stored under
// the same id: its id has its sequence appended.
func (e Event) WithUniqueID() Event {
	e.EventID, e.unique = string(e.appendSequence([]byte(e.EventID))), true
	return e
}

// WithSequence returns the event with another sequence. An id that contains the sequence
// changes with it.
func (e Event) WithSequence(sequence int64) Event {
	id, made := strings.CutSuffix(e.EventID, string(e.appendSequence(nil)))
	e.Sequence = sequence
	if made {
		e.EventID = string(e.appendSequence([]byte(id)))
	}
	return e
}

// Quarantine returns the event that replaces an event whose document the store
// refused. It keeps the id, and its document holds the envelope without searchable
// fields. Refused is the inverse.
func (e Event) Quarantine(reason string) Event {
	e.QuarantinedAction, e.Action = e.Action, Quarantined
	e.QuarantinedFailure, e.Failure = e.Failure, Failure{Type: "quarantined", Message: reason}
	return e
}

// Unreadable is Quarantine for a message that is no event, though it was published as one, by an action that anyone can
// write: Refused returns nothing for it.
func (e Event) Unreadable(reason string) Event {
	e = e.Quarantine(reason)
	e.Failure.Class = classUnreadable
	return e
}

const classUnreadable = "unreadable"

// Refused returns the event that a quarantined event replaces, for another attempt to
// store it. It returns false for other events, and for a message in the log that is no
// event.
func (e Event) Refused() (Event, bool) {
	if e.Action != Quarantined || e.QuarantinedAction == "" || e.Failure.Class == classUnreadable {
		return Event{}, false
	}
	e.Action, e.Failure = e.QuarantinedAction, e.QuarantinedFailure
	e.QuarantinedAction, e.QuarantinedFailure = "", Failure{}
	return e, true
}

// RecordedAction returns the action of the event or, if it is quarantined, of the event
// that it replaces.
func (e Event) RecordedAction() Action {
	if e.Action == Quarantined {
		return e.QuarantinedAction
	}
	return e.Action
}
