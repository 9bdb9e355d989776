package schemas

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// NewerVersionError reports that a message has headers of a newer version of
// Watership. Such a message must be kept unchanged; Wrap does so.
type NewerVersionError struct {
	Version int
}

func (e *NewerVersionError) Error() string {
	return fmt.Sprintf("the message carries %s %d, this Watership knows up to %d: "+
		"upgrade this one, or stop the newer one", headerVersion, e.Version, WireVersion)
}

// Wrap returns a message for Watership's queues: the envelope, whose exchange and
// routing key are the origin, with its state in headers. The five properties that
// cannot travel unchanged become headers too, and the message is persistent. A
// stack is shortened if space is short. If the envelope's headers leave no room for
// Watership's, or have a newer version, Wrap moves them into the body, before the
// message's own.
func (f FrameMax) Wrap(e Envelope, s State) amqp.Publishing {
	if !f.LeavesRoom(e) || typedTable(e.Headers).int(headerVersion) > WireVersion {
		return f.shortened(wrapInBody(e, s))
	}
	return f.shortened(wrapInHeaders(e, s))
}

func wrapInHeaders(e Envelope, s State) amqp.Publishing {
	p := e.Publishing()
	headers := typedTable(withoutState(e.Headers))
	headers.setText(headerExpiration, p.Expiration)
	headers.setText(headerUserID, p.UserId)
	headers.setInt(headerPriority, int64(p.Priority))
	headers.setInt(headerDeliveryMode, int64(p.DeliveryMode))
	if cc, present := headers[headerCC]; present {
		headers[headerCarbonCopy] = cc
		delete(headers, headerCC)
	}
	headers[headerExchange] = e.Exchange
	headers[headerRoutingKey] = e.RoutingKey
	headers.saveTimes(e)
	s.write(headers)
	p.Headers = amqp.Table(headers)
	p.Expiration, p.UserId, p.Priority, p.DeliveryMode = "", "", 0, amqp.Persistent
	return p
}

// OmittedBody is the size and the place of a body that a message travels without.
type OmittedBody struct {
	Size int // bytes
	In   BodyPlace
}

// WrapWithoutBody is Wrap without the body. Headers have the body's place and size
// instead.
func (f FrameMax) WrapWithoutBody(e Envelope, s State, body OmittedBody) amqp.Publishing {
	e.Body = nil
	p := f.Wrap(e, s)
	p.Headers[headerBodySize] = int64(body.Size)
	if body.In != BodyInPublished {
		p.Headers[headerBodyIn] = string(body.In)
	}
	return p
}

// OmittedBody returns the place of the body of a message in one of Watership's queues,
// and reports whether the message travelled without it.
func (e Envelope) OmittedBody() (body OmittedBody, omitted bool) {
	h := typedTable(e.Headers)
	if _, omitted = h[headerBodySize]; !omitted {
		return OmittedBody{}, false
	}
	body = OmittedBody{Size: int(h.int(headerBodySize)), In: BodyInPublished}
	if in := BodyPlace(h.text(headerBodyIn)); in == BodyInUnstorable {
		body.In = in
	}
	return body, true
}

// WrapBody returns a message with the body of e and only the headers that identify
// e, for a message that is too large with all of its headers. The queue of
// unstorable messages keeps it as long as failures.
func (f FrameMax) WrapBody(e Envelope, s State) amqp.Publishing {
	alone := Envelope{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Body: e.Body}
	p := f.Wrap(alone, State{Fingerprint: s.Fingerprint, Message: s.Message, Queue: s.Queue, EventID: s.EventID, Time: s.Time})
	typedTable(p.Headers).setKept(Failures, s.Time)
	return p
}

// WrapForQueue is Wrap for the last hop, to the single queue s.Queue: it restores
// the properties of the first publish. It restores user_id only if it equals login,
// since RabbitMQ refuses any other. It omits CC, which would route the message to
// other queues. If the message's headers leave no room for Watership's, it adds
// only the headers that identify the message and count its deliveries, or, if even these
// do not fit, only the name of the queue, and the message is new there.
func (f FrameMax) WrapForQueue(e Envelope, s State, login string) amqp.Publishing {
	p, fits := f.wrapForQueue(e, s)
	if !fits {
		p.Headers = withoutState(e.Headers)
		delete(p.Headers, headerCC)
		p.Headers[headerQueue] = s.Queue
	}
	p.Expiration = e.Properties.Expiration
	p.Priority = e.Properties.Priority
	p.DeliveryMode = e.Properties.DeliveryMode
	if e.Properties.UserID == login {
		p.UserId = login
	}
	return p
}

// CountsDeliveries reports whether a message has its number of deliveries when it returns to its queue: its
// headers leave room for that.
func (f FrameMax) CountsDeliveries(e Envelope, s State) bool {
	_, fits := f.wrapForQueue(e, s)
	return fits
}

func (f FrameMax) wrapForQueue(e Envelope, s State) (p amqp.Publishing, fits bool) {
	if !f.LeavesRoom(e) {
		s = State{
			Fingerprint: s.Fingerprint, Queue: s.Queue, Waits: s.Waits, WaitsSince: s.WaitsSince, Deliveries: s.Deliveries, Suspect: s.Suspect,
			Replay: s.Replay, ReplayOf: s.ReplayOf, OriginClaimed: s.OriginClaimed, Untapped: s.Untapped, Subscription: s.Subscription,
		}
	}
	p = f.shortened(wrapInHeaders(e, s))
	return p, HeaderFrameSize(p)+signRoom <= f.limit()
}

// shortened makes room for the headers that the broker adds. It shortens the stack
// first, then drops the progress, which only messages with large headers need, then drops
// older attempts and shortens the error, which only frames smaller than RabbitMQ's
// default need.
func (f FrameMax) shortened(p amqp.Publishing) amqp.Publishing {
	excess := func() int { return HeaderFrameSize(p) + signRoom + f.deathRoom() - f.limit() }
	cut := func(name string) {
		if text := typedTable(p.Headers).text(name); text != "" && excess() > 0 {
			p.Headers[name] = shorten(text, max(0, len(text)-excess()))
		}
	}
	cut(headerStack)
	if excess() > 0 {
		delete(p.Headers, headerProgress)
	}
	for attempts, _ := p.Headers[headerAttempts].([]any); len(attempts) > 0 && excess() > 0; {
		attempts = attempts[(len(attempts)+1)/2:]
		p.Headers[headerAttempts] = attempts
	}
	cut(headerError)
	return p
}

// WrapForExchange returns a replay to the exchange and routing key of e: the
// message as first published, marked only with the fingerprint and the replay. It
// is a new message, without attempts and without an instance id. If its headers
// leave no room for the mark, it has none. It omits a user_id that differs from
// login, since RabbitMQ refuses it.
func (f FrameMax) WrapForExchange(e Envelope, s State, login string) amqp.Publishing {
	p := e.Publishing()
	headers := typedTable(without(e.Headers, isStateHeader, roomForMark))
	State{Fingerprint: s.Fingerprint, Replay: s.Replay, ReplayOf: s.ReplayOf}.write(headers)
	headers.saveTimes(e)
	p.Headers = amqp.Table(headers)
	if e.Properties.UserID != login {
		p.UserId = ""
	}
	if HeaderFrameSize(p)+signRoom > f.limit() {
		p.Headers = withoutState(e.Headers)
	}
	return p
}

// Unwrap is the inverse of Wrap, for messages in Watership's queues. A message
// without Watership's headers has a zero state and the exchange and routing key of
// its arrival. The only error is a NewerVersionError.
func (arrived Envelope) Unwrap() (Envelope, State, error) {
	e, state, err := unwrapHeaders(arrived)
	if inBody, wrapped := unwrapBody(arrived); err == nil && wrapped {
		return inBody, state, nil
	}
	return e, state, err
}

func unwrapHeaders(arrived Envelope) (Envelope, State, error) {
	headers := typedTable(arrived.Headers)
	state := readState(headers)
	if state.Version > WireVersion {
		return Envelope{}, State{}, &NewerVersionError{state.Version}
	}
	e := arrived
	if exchange, wrapped := headers[headerExchange].(string); wrapped {
		e.Exchange, e.RoutingKey = exchange, headers.text(headerRoutingKey)
		e.Properties.Expiration = headers.text(headerExpiration)
		e.Properties.Priority = uint8(headers.int(headerPriority))
		e.Properties.DeliveryMode = uint8(headers.int(headerDeliveryMode))
		e.Properties.UserID = headers.text(headerUserID)
	}
	e.Headers = withoutState(arrived.Headers)
	headers.restoreTimes(&e)
	if cc, present := headers[headerCarbonCopy]; present {
		e.Headers[headerCC] = cc
	}
	return e, state, nil
}

// saveTimes saves the timestamp and timestamp_in_ms of a message in headers, or
// that it has none: a broker with
// message_interceptors.incoming.set_header_timestamp sets both on each hop, and
// with overwrite replaces them
// (https://www.rabbitmq.com/docs/message-interceptors).
func (h typedTable) saveTimes(e Envelope) {
	h[headerTimestamp] = ""
	if stamp := e.Properties.Timestamp; !stamp.IsZero() {
		h[headerTimestamp] = strconv.FormatInt(stamp.Unix(), 10)
	}
	if set, present := e.Headers[headerBrokerTime]; present {
		h[headerBrokerCopy] = set
	}
}

// restoreTimes restores the times that saveTimes saved. Without saved times it
// changes nothing. It writes to the headers of e, which e must not share.
func (h typedTable) restoreTimes(e *Envelope) {
	saved, kept := h[headerTimestamp].(string)
	if !kept {
		return
	}
	e.Properties.Timestamp = time.Time{}
	if seconds, err := strconv.ParseInt(saved, 10, 64); err == nil {
		e.Properties.Timestamp = time.Unix(seconds, 0)
	}
	delete(e.Headers, headerBrokerTime)
	if set, present := h[headerBrokerCopy]; present {
		e.Headers[headerBrokerTime] = set
	}
}

// withoutState copies a header table without the headers of Watership and of the
// broker.
func withoutState(table amqp.Table) amqp.Table { return without(table, isStateHeader, roomForState) }

func isStateHeader(name string) bool { return isWatershipHeader(name) || SetByBroker(name) }

func isWatershipHeader(name string) bool { return strings.HasPrefix(name, headerPrefix) }

// without copies a header table without the headers selected by omit, with room for
// Watership's.
func without(table amqp.Table, omit func(name string) bool, room int) amqp.Table {
	kept := make(amqp.Table, len(table)+room)
	for name, value := range table {
		if !omit(name) {
			kept[name] = value
		}
	}
	return kept
}

// roomForState and roomForMark keep a header table from growing when Watership's
// headers are added. More room than needed makes every iteration over it slower.
const (
	roomForState = 12
	roomForMark  = 5
)
