package schemas

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
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

// TimeSource is the origin of an event's time.
type TimeSource string

// The sources of time, the most reliable first.
const (
	TimeOfEvent     TimeSource = "event"     // the clock of the process that did the step
	TimeOfBroker    TimeSource = "broker"    // timestamp_in_ms, which a publisher can set, too
	timeOfPublisher TimeSource = "publisher" // the timestamp property, or a header of Decoder.TimeHeaders
	TimeOfIngest    TimeSource = "ingest"    // when the indexer received the message
)

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

	QuarantinedAction  Action  // the action of the event that a quarantined event replaces
	QuarantinedFailure Failure // its failure; a quarantined event has the store's reason

	unique bool // the id has the sequence appended already
}

// BodyPlace is the place where the body of an event is stored.
type BodyPlace string

// The places where a body can be.
const (
	BodyHere         BodyPlace = ""           // in the event itself
	BodyInPublished  BodyPlace = "published"  // in the `published` event of the same fingerprint
	BodyInUnstorable BodyPlace = "unstorable" // in the queue of messages too large for the store
)

// Decoder converts deliveries of the indexer's queues to events.
type Decoder struct {
	Source   string
	VHost    string
	Topology Topology
	Keys     StateKeys // keys of the processes that publish events and replays

	Fingerprints Fingerprints

	// TimeHeaders are the headers that may have the time at which a message was
	// published, for messages whose timestamp property has none. The first that has a
	// time counts.
	TimeHeaders []string

	// Streams finds the stream of a message, as streamid.New returns it. Nil: messages have
	// none. All processes of a system need the same.
	Streams func(Envelope) MessageStream
}

func (dec Decoder) verifier() *Verifier {
	return &Verifier{Topology: dec.Topology, Keys: dec.Keys, Fingerprints: dec.Fingerprints}
}

// Lifecycle decodes an event from the log: a message that Watership published to
// the exchange of events, with the action as the routing key. received and sequence
// are the time and the place in the order at which the indexer received it. Any
// other message gives an error; Unreadable makes an event of it.
func (dec Decoder) Lifecycle(d amqp.Delivery, received time.Time, sequence int64) (Event, error) {
	arrived := FromDelivery(d)
	if d.Exchange != dec.Topology.Events() {
		return Event{}, fmt.Errorf("a message in the log was published to exchange %q, not to %q",
			d.Exchange, dec.Topology.Events())
	}
	if !dec.Keys.accepts(arrived, forEvent(Action(d.RoutingKey))) {
		return Event{}, errors.New("a message in the log is not signed by any key of amqp.state_key_file")
	}
	envelope, state, err := arrived.Unwrap()
	if err != nil {
		return Event{}, err
	}
	event := dec.event(Action(d.RoutingKey), envelope, state)
	event.Sequence, event.TimeSource = sequence, TimeOfEvent
	switch event.Action {
	case Audited, Rescheduled:
		event.readAudit(arrived.Headers)
	case Triaged:
		event.readAudit(arrived.Headers)
		event.readTriage(arrived.Headers)
	}
	if storable(event.Time).IsZero() {
		event.Time, event.TimeSource = received, TimeOfIngest
	}
	if err := event.checkFields(); err != nil {
		return Event{}, err
	}
	if body, omitted := arrived.OmittedBody(); omitted {
		event.BodyIn, event.BodySize = body.In, body.Size
	}
	dec.setStream(&event)
	dec.setTimes(&event)
	return event, nil
}

// Unreadable returns a quarantined event for a message in the log that Lifecycle
// cannot decode, with the reason why. Its envelope is the message as it arrived,
// with every header.
func (dec Decoder) Unreadable(d amqp.Delivery, received time.Time, sequence int64, why error) Event {
	arrived := FromDelivery(d)
	event := dec.event(Action(d.RoutingKey), arrived, State{Fingerprint: dec.Fingerprints.Of(arrived)})
	event.Sequence, event.Time, event.TimeSource = sequence, received, TimeOfIngest
	event.EventID = dec.tapID(event)
	event = event.Quarantine(why.Error())
	event.Failure.Class = classUnreadable
	return event
}

// classUnreadable marks quarantined events of messages in the log that are no events. Their
// action comes from a routing key, which anyone can write.
const classUnreadable = "unreadable"

// Tapped converts a tap copy, which the indexer received at a time with a sequence,
// to a `published` event. The event's origin is always the exchange and routing key
// of the delivery. No content of a message makes Tapped fail. Headers may claim a
// replay that does not exist; then TappedUnmarked gives the right event.
func (dec Decoder) Tapped(d amqp.Delivery, received time.Time, sequence int64) Event {
	return dec.tapped(d, received, sequence, dec.verifier().VerifyMark)
}

// TappedUnmarked is Tapped for a copy that no replay published, even if its headers
// claim one.
func (dec Decoder) TappedUnmarked(d amqp.Delivery, received time.Time, sequence int64) Event {
	return dec.tapped(d, received, sequence, dec.verifier().newMessage)
}

func (dec Decoder) tapped(d amqp.Delivery, received time.Time, sequence int64, verify func(Envelope) VerifiedState) Event {
	arrived := FromDelivery(d)
	if d.Exchange == dec.Topology.Late() {
		if death, found := dec.lateDeath(d.Headers); found {
			arrived = arrived.asBefore(death)
		}
	}
	if d.Redelivered && arrived.Headers != nil { // the queue of tap copies has incremented x-delivery-count
		arrived.Headers = without(arrived.Headers, countsDeliveries, 0)
	}
	verified := verify(arrived)
	if typedTable(arrived.Headers).int(headerVersion) > WireVersion { // kept with the message, but without a meaning in this version
		verified.Envelope = arrived
	}
	event := dec.event(Published, verified.Envelope, verified.State)
	dec.setStream(&event)
	event.Sequence = sequence
	event.EventID = dec.tapID(event)
	event.Time, event.TimeSource = dec.publishedAt(arrived, event.Replay != "", received)
	return event
}

// lateDeath returns the newest death in a queue of tap copies, with any limit.
func (dec Decoder) lateDeath(headers amqp.Table) (Death, bool) {
	_, queues := dec.Topology.Partitions()
	for _, death := range deathsOf(headers) {
		if _, former := dec.Topology.FormerIndex(death.Queue); former || slices.Contains(queues, death.Queue) {
			return death, true
		}
	}
	return Death{}, false
}

func (dec Decoder) event(action Action, e Envelope, s State) Event {
	return Event{
		State: s, Action: action, Source: dec.Source, VHost: dec.VHost,
		Envelope: e, BodySize: len(e.Body),
	}
}

// IDFromContent reports whether the event's id follows from its content alone, so
// that a second, equal message has the same id.
func (e Event) IDFromContent() bool {
	return e.RecordedAction() == Published && !e.unique && e.Envelope.Properties.MessageID != ""
}

// tapID returns an id that is the same for each delivery of one copy if the message
// has its own id. Otherwise the sequence distinguishes equal messages.
func (dec Decoder) tapID(e Event) string {
	id := make([]byte, 0, 128)
	id = append(append(append(id, dec.Source...), ':'), e.Fingerprint...)
	if e.Replay != "" {
		id = append(append(id, ':'), e.Replay...)
	}
	if !e.IDFromContent() {
		id = e.appendSequence(id)
	}
	return string(id)
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
