package wire

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// The sources of time, the most reliable first.
const (
	TimeOfEvent     schemas.TimeSource = "event"     // the clock of the process that did the step
	TimeOfBroker    schemas.TimeSource = "broker"    // timestamp_in_ms, which a publisher can set, too
	timeOfPublisher schemas.TimeSource = "publisher" // the timestamp property, or a header of Decoder.TimeHeaders
	TimeOfIngest    schemas.TimeSource = "ingest"    // when the indexer received the message
)

// Decoder converts deliveries of the indexer's queues to events.
type Decoder struct {
	Source   string
	VHost    string
	Topology schemas.Topology
	Keys     schemas.StateKeys // keys of the processes that publish events and replays

	Fingerprints schemas.Fingerprints

	// TimeHeaders are the headers that may have the time at which a message was
	// published, for messages whose timestamp property has none. The first that has a
	// time counts.
	TimeHeaders []string

	// Streams finds the stream of a message, as streamid.New returns it. Nil: messages have
	// none. All processes of a system need the same.
	Streams func(schemas.Envelope) schemas.MessageStream
}

func (dec Decoder) verifier() *Verifier {
	return &Verifier{Topology: dec.Topology, Keys: dec.Keys, Fingerprints: dec.Fingerprints}
}

// Lifecycle decodes an event from the log: a message that Watership published to
// the exchange of events, with the action as the routing key. received and sequence
// are the time and the place in the order at which the indexer received it. Any
// other message gives an error; Unreadable makes an event of it.
func (dec Decoder) Lifecycle(d amqp.Delivery, received time.Time, sequence int64) (schemas.Event, error) {
	arrived := schemas.FromDelivery(d)
	if d.Exchange != dec.Topology.Events() {
		return schemas.Event{}, fmt.Errorf("a message in the log was published to exchange %q, not to %q",
			d.Exchange, dec.Topology.Events())
	}
	if !accepts(dec.Keys, arrived, forEvent(schemas.Action(d.RoutingKey))) {
		return schemas.Event{}, errors.New("a message in the log is not signed by any key of amqp.state_key_file")
	}
	envelope, state, err := Unwrap(arrived)
	if err != nil {
		return schemas.Event{}, err
	}
	event := dec.event(schemas.Action(d.RoutingKey), envelope, state)
	event.TimeSource = TimeOfEvent
	switch event.Action {
	case schemas.Audited, schemas.Rescheduled:
		readAudit(&event.State, arrived.Headers)
	case schemas.Triaged:
		readAudit(&event.State, arrived.Headers)
		readTriage(&event.State, arrived.Headers)
	}
	if event.Time.IsZero() {
		event.Time, event.TimeSource = received, TimeOfIngest
	}
	if err := event.Check(received); err != nil { // which has no sequence yet
		return schemas.Event{}, err
	}
	event.Sequence = sequence
	if body, omitted := OmittedBodyOf(arrived); omitted {
		event.BodyIn, event.BodySize = body.In, body.Size
	}
	dec.setStream(&event)
	dec.setTimes(&event)
	return event, nil
}

// Unreadable returns a quarantined event for a message in the log that Lifecycle
// cannot decode, with the reason why. Its envelope is the message as it arrived,
// with every header.
func (dec Decoder) Unreadable(d amqp.Delivery, received time.Time, sequence int64, why error) schemas.Event {
	arrived := schemas.FromDelivery(d)
	event := dec.event(schemas.Action(d.RoutingKey), arrived, schemas.State{Fingerprint: dec.Fingerprints.Of(arrived)})
	event.Sequence, event.Time, event.TimeSource = sequence, received, TimeOfIngest
	event.EventID = dec.tapID(event)
	return event.Unreadable(why.Error())
}

// Tapped converts a tap copy, which the indexer received at a time with a sequence,
// to a `published` event. The event's origin is always the exchange and routing key
// of the delivery. No content of a message makes Tapped fail. Headers may claim a
// replay that does not exist; then TappedUnmarked gives the right event.
func (dec Decoder) Tapped(d amqp.Delivery, received time.Time, sequence int64) schemas.Event {
	return dec.tapped(d, received, sequence, dec.verifier().VerifyMark)
}

// TappedUnmarked is Tapped for a copy that no replay published, even if its headers
// claim one.
func (dec Decoder) TappedUnmarked(d amqp.Delivery, received time.Time, sequence int64) schemas.Event {
	return dec.tapped(d, received, sequence, dec.verifier().newMessage)
}

func (dec Decoder) tapped(d amqp.Delivery, received time.Time, sequence int64, verify func(schemas.Envelope) VerifiedState) schemas.Event {
	arrived := schemas.FromDelivery(d)
	if d.Exchange == dec.Topology.Late() {
		if death, found := dec.lateDeath(d.Headers); found {
			arrived = asBefore(arrived, death)
		}
	}
	if d.Redelivered && arrived.Headers != nil { // the queue of tap copies has incremented x-delivery-count
		arrived.Headers = header.Without(arrived.Headers, header.CountsDeliveries, 0)
	}
	verified := verify(arrived)
	if header.Table(arrived.Headers).Int(headerVersion) > header.Version { // kept with the message, but without a meaning in this version
		verified.Envelope = arrived
	}
	event := dec.event(schemas.Published, verified.Envelope, verified.State)
	dec.setStream(&event)
	event.Sequence = sequence
	event.EventID = dec.tapID(event)
	event.Time, event.TimeSource = dec.publishedAt(arrived, event.Replay != "", received)
	return event
}

// lateDeath returns the newest death in a queue of tap copies, with any limit.
func (dec Decoder) lateDeath(headers amqp.Table) (header.Death, bool) {
	_, queues := dec.Topology.Partitions()
	for _, death := range header.Deaths(headers) {
		if _, former := dec.Topology.FormerIndex(death.Queue); former || slices.Contains(queues, death.Queue) {
			return death, true
		}
	}
	return header.Death{}, false
}

func (dec Decoder) event(action schemas.Action, e schemas.Envelope, s schemas.State) schemas.Event {
	return schemas.Event{
		State: s, Action: action, Source: dec.Source, VHost: dec.VHost,
		Envelope: e, BodySize: len(e.Body),
	}
}

// tapID returns an id that is the same for each delivery of one copy if the message
// has its own id. Otherwise the sequence distinguishes equal messages.
func (dec Decoder) tapID(e schemas.Event) string {
	id := make([]byte, 0, 128)
	id = append(append(append(id, dec.Source...), ':'), e.Fingerprint...)
	if e.Replay != "" {
		id = append(append(id, ':'), e.Replay...)
	}
	if !e.IDFromContent() {
		id = strconv.AppendInt(append(id, ':'), e.Sequence, 10) // see Event.WithSequence
	}
	return string(id)
}
