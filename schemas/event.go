package schemas

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Action says what an event is about.
type Action string

// The events of a message's life.
const (
	Published      Action = "published"       // seen by the tap
	Handled        Action = "handled"         // a handler succeeded
	RetryScheduled Action = "retry_scheduled" // an attempt failed, another follows
	Poisoned       Action = "poisoned"        // given up
	Replayed       Action = "replayed"        // sent again by a job
	Discarded      Action = "discarded"       // an operator decided against it
	Quarantined    Action = "quarantined"     // stands for a document that the store refused
	Dropped        Action = "dropped"         // about no message: a gap in the record of what was published
	Paused         Action = "paused"          // about no message: the breaker of a route opened, or still is open
	Resumed        Action = "resumed"         // about no message: the breaker of a route closed
)

// OfNoMessage says whether events of the action are about no message.
func (a Action) OfNoMessage() bool { return a == Dropped || a == Paused || a == Resumed }

// Outcome is the value of event.outcome (ECS).
func (a Action) Outcome() string {
	switch a {
	case Handled, Replayed:
		return "success"
	case RetryScheduled, Poisoned, Quarantined:
		return "failure"
	}
	return "unknown"
}

// TimeSource says where an event's time comes from.
type TimeSource string

// The sources of time, the best first.
const (
	TimeOfEvent     TimeSource = "event"     // we were there when it happened
	TimeOfBroker    TimeSource = "broker"    // timestamp_in_ms, which a publisher can set, too
	TimeOfPublisher TimeSource = "publisher" // the timestamp property
	TimeTaken       TimeSource = "taken"     // when the indexer took it
)

// Event is one fact about a message. It is written to the store once.
type Event struct {
	State // EventID is the document's id

	Action     Action
	TimeSource TimeSource
	Sequence   int64     // microseconds; the order in which the indexer took it, see Decoder
	Ingested   time.Time // when it was stored
	Source     string    // configured name of the RabbitMQ system
	VHost      string

	Envelope Envelope
	BodySize int       // bytes, also where the body is elsewhere
	BodyIn   BodyPlace // where the body is

	QuarantinedAction Action // of a quarantined event: what it stands for

	second bool // the id has the sequence appended already
}

// BodyPlace says where the body of an event is.
type BodyPlace string

// The places where a body can be.
const (
	BodyHere         BodyPlace = ""           // in the event itself
	BodyInPublished  BodyPlace = "published"  // in the `published` event of the same fingerprint
	BodyInUnstorable BodyPlace = "unstorable" // in the queue of messages too large for the store
)

// Decoder makes events of what reaches the indexer.
type Decoder struct {
	Source   string
	VHost    string
	Topology Topology
	Keys     StateKeys // of those that publish events and replays
}

func (dec Decoder) verifier() *Verifier { return &Verifier{Topology: dec.Topology, Keys: dec.Keys} }

// Lifecycle reads an event from the log, taken at a time with a sequence: an
// ordinary message that one of ours published to the exchange of events, its
// action as the routing key. What is no such message gives an error, and is
// for Unreadable.
func (dec Decoder) Lifecycle(d amqp.Delivery, taken time.Time, sequence int64) (Event, error) {
	arrived := FromDelivery(d)
	if d.Exchange != dec.Topology.Events() {
		return Event{}, fmt.Errorf("a message in the log was published to exchange %q, not to %q",
			d.Exchange, dec.Topology.Events())
	}
	if !dec.Keys.signed(arrived, forEvent(Action(d.RoutingKey))) {
		return Event{}, errors.New("a message in the log is not signed by any key of amqp.state_key_file")
	}
	envelope, state, err := Unwrap(arrived)
	if err != nil {
		return Event{}, err
	}
	event := dec.event(Action(d.RoutingKey), envelope, state)
	event.Sequence, event.TimeSource = sequence, TimeOfEvent
	if storable(event.Time).IsZero() {
		event.Time, event.TimeSource = taken, TimeTaken
	}
	if err := event.checkFields(); err != nil {
		return Event{}, err
	}
	if body, omitted := BodyOmitted(arrived); omitted {
		event.BodyIn, event.BodySize = body.In, body.Size
	}
	return event, nil
}

// Unreadable is the quarantined event of a message in the log that is no event,
// for the reason why. Its envelope is the message as it arrived, with every
// header.
func (dec Decoder) Unreadable(d amqp.Delivery, taken time.Time, sequence int64, why error) Event {
	arrived := FromDelivery(d)
	event := dec.event(Action(d.RoutingKey), arrived, State{Fingerprint: arrived.Fingerprint()})
	event.Sequence, event.Time, event.TimeSource = sequence, taken, TimeTaken
	event.EventID = dec.tapID(event)
	return event.Quarantine(why.Error())
}

// Tapped makes a `published` event of a copy that the tap took at a time with
// a sequence. Its origin is always the delivery's. Nothing that a message
// carries can make it fail. Where it says that a replay sent it, there may be no such
// replay: then the event is that of TappedUnmarked.
func (dec Decoder) Tapped(d amqp.Delivery, taken time.Time, sequence int64) Event {
	return dec.tapped(d, taken, sequence, dec.verifier().VerifyMark)
}

// TappedUnmarked is Tapped for a copy that no replay sent, whatever its headers say.
func (dec Decoder) TappedUnmarked(d amqp.Delivery, taken time.Time, sequence int64) Event {
	return dec.tapped(d, taken, sequence, newMessage)
}

func (dec Decoder) tapped(d amqp.Delivery, taken time.Time, sequence int64, verify func(Envelope) VerifiedState) Event {
	arrived := FromDelivery(d)
	if d.Exchange == dec.Topology.Late() {
		if death, found := dec.Topology.lateDeath(d.Headers); found {
			arrived = arrived.asBefore(death)
		}
	}
	if d.Redelivered && arrived.Headers != nil { // our own queue has counted
		arrived.Headers = without(arrived.Headers, countsDeliveries, 0)
	}
	verified := verify(arrived)
	if ours(arrived.Headers).int(headerVersion) > WireVersion { // kept with the message, meaning nothing here
		verified.Envelope = arrived
	}
	event := dec.event(Published, verified.Envelope, verified.State)
	event.Sequence = sequence
	event.EventID = dec.tapID(event)
	event.Time, event.TimeSource = publishedAt(arrived, event.Replay != "", taken)
	return event
}

func (dec Decoder) event(action Action, e Envelope, s State) Event {
	return Event{
		State: s, Action: action, Source: dec.Source, VHost: dec.VHost,
		Envelope: e, BodySize: len(e.Body),
	}
}

// IDFromContent says whether the event's id follows from its content alone, so
// that a second, equal message has the same one.
func (e Event) IDFromContent() bool {
	action := e.Action
	if action == Quarantined {
		action = e.QuarantinedAction
	}
	return action == Published && !e.second && e.Envelope.Properties.MessageID != ""
}

// tapID is the same for each delivery of one copy where the message has an id
// of its own; else the sequence tells equal messages apart.
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

// Second is the event of a second message, equal to one that is stored under
// the same id: its id has its sequence appended.
func (e Event) Second() Event {
	e.EventID, e.second = string(e.appendSequence([]byte(e.EventID))), true
	return e
}

// At is the event in another place of the order. An id with its sequence in it goes
// with that.
func (e Event) At(sequence int64) Event {
	id, made := strings.CutSuffix(e.EventID, string(e.appendSequence(nil)))
	e.Sequence = sequence
	if made {
		e.EventID = string(e.appendSequence([]byte(id)))
	}
	return e
}

// Quarantine is the event that stands for one whose document the store refused.
// It keeps the id, and its document holds the envelope raw.
func (e Event) Quarantine(reason string) Event {
	e.QuarantinedAction, e.Action = e.Action, Quarantined
	e.Failure = Failure{Type: "quarantined", Message: reason}
	return e
}

// publishedAt is the best that is known of when a message was published. Both of its
// times can be its publisher's word, as a broker that sets timestamp_in_ms may leave
// one that is there: they are believed as far as a copy can have waited for the
// indexer. A replay has the times of the message that it repeats, but for what the
// broker has set since.
func publishedAt(arrived Envelope, replayed bool, taken time.Time) (time.Time, TimeSource) {
	headers := ours(arrived.Headers)
	ms := headers.int(headerBrokerTime)
	if own := !replayed || ms != headers.int(headerBrokerCopy); own && ms > 0 && plausible(time.UnixMilli(ms), taken) {
		return time.UnixMilli(ms), TimeOfBroker
	}
	if stamp := arrived.Properties.Timestamp; !replayed && !stamp.IsZero() && plausible(stamp, taken) {
		return stamp, TimeOfPublisher
	}
	return taken, TimeTaken
}

const (
	longestLag  = 7 * 24 * time.Hour // of an indexer that was away
	clocksApart = 5 * time.Minute    // of two machines, at most
)

func plausible(t, taken time.Time) bool {
	// Not by Before, which the farthest times that a header can hold overflow.
	return t.Unix() > taken.Add(-longestLag).Unix() && t.Unix() < taken.Add(clocksApart).Unix()
}
