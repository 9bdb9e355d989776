package wire

import (
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// NewerVersionError reports that a message has headers of a newer version of
// Watership. Such a message must be kept unchanged; Wrap does so.
type NewerVersionError struct {
	Version int
}

func (e *NewerVersionError) Error() string {
	return fmt.Sprintf("the message carries %s %d, this Watership knows up to %d: "+
		"upgrade this one, or stop the newer one", headerVersion, e.Version, header.Version)
}

// Wrap returns a message for Watership's queues: the envelope, whose exchange and
// routing key are the origin, with its state in headers. The five properties that
// cannot travel unchanged become headers too, and the message is persistent. A
// stack is shortened if space is short. If the envelope's headers leave no room for
// Watership's, or have a newer version, Wrap moves them into the body, before the
// message's own.
func (f FrameMax) Wrap(e schemas.Envelope, s schemas.State) amqp.Publishing {
	if !f.LeavesRoom(e) || header.Table(e.Headers).Int(headerVersion) > header.Version {
		return f.shortened(wrapInBody(e, s))
	}
	return f.shortened(wrapInHeaders(e, s))
}

func wrapInHeaders(e schemas.Envelope, s schemas.State) amqp.Publishing {
	p := e.Publishing()
	headers := header.Table(header.Without(e.Headers, header.IsState, roomFor(s)))
	headers.SetFlag(header.Redacted, e.Redacted)
	headers.SetText(headerExpiration, p.Expiration)
	headers.SetText(headerUserID, p.UserId)
	headers.SetInt(headerPriority, int64(p.Priority))
	headers.SetInt(headerDeliveryMode, int64(p.DeliveryMode))
	if cc, present := headers[header.CC]; present {
		headers[headerCarbonCopy] = cc
		delete(headers, header.CC)
	}
	headers[headerExchange] = e.Exchange
	headers[headerRoutingKey] = e.RoutingKey
	saveTimes(headers, e)
	writeState(s, headers)
	p.Headers = amqp.Table(headers)
	p.Expiration, p.UserId, p.Priority, p.DeliveryMode = "", "", 0, amqp.Persistent
	return p
}

// OmittedBody is the size and the place of a body that a message travels without.
type OmittedBody struct {
	Size int // bytes
	In   schemas.BodyPlace
}

// WrapWithoutBody is Wrap without the body. Headers have the body's place and size
// instead.
func (f FrameMax) WrapWithoutBody(e schemas.Envelope, s schemas.State, body OmittedBody) amqp.Publishing {
	e.Body = nil
	p := f.Wrap(e, s)
	p.Headers[headerBodySize] = int64(body.Size)
	if body.In != schemas.BodyInPublished {
		p.Headers[headerBodyIn] = string(body.In)
	}
	return p
}

// OmittedBodyOf returns the place of the body of a message in one of Watership's queues,
// and reports whether the message travelled without it.
func OmittedBodyOf(e schemas.Envelope) (body OmittedBody, omitted bool) {
	h := header.Table(e.Headers)
	if _, omitted = h[headerBodySize]; !omitted {
		return OmittedBody{}, false
	}
	body = OmittedBody{Size: int(h.Int(headerBodySize)), In: schemas.BodyInPublished}
	if in := schemas.BodyPlace(h.Text(headerBodyIn)); in == schemas.BodyInUnstorable {
		body.In = in
	}
	return body, true
}

// WrapBody returns a message with the body of e and only the headers that identify
// e, for a message that is too large with all of its headers. The queue of
// unstorable messages keeps it as long as failures.
func (f FrameMax) WrapBody(e schemas.Envelope, s schemas.State) amqp.Publishing {
	alone := schemas.Envelope{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Body: e.Body}
	p := f.Wrap(alone, schemas.State{Fingerprint: s.Fingerprint, Message: s.Message, Queue: s.Queue, EventID: s.EventID, Time: s.Time})
	setKept(header.Table(p.Headers), schemas.Failures, s.Time)
	return p
}

// WrapForQueue is Wrap for the last hop, to the single queue s.Queue: it restores
// the properties of the first publish. It restores user_id only if it equals login,
// since RabbitMQ refuses any other. It omits CC, which would route the message to
// other queues. If the message's headers leave no room for Watership's, it adds
// only the headers that identify the message and count its deliveries, or, if even these
// do not fit, only the name of the queue, and the message is new there.
func (f FrameMax) WrapForQueue(e schemas.Envelope, s schemas.State, login string) amqp.Publishing {
	p, fits := f.wrapForQueue(e, s)
	if !fits {
		p.Headers = withoutState(e.Headers)
		delete(p.Headers, header.CC)
		p.Headers[headerQueue] = s.Queue
	}
	if e.Redacted {
		p.Headers = header.Withhold(p.Headers)
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
func (f FrameMax) CountsDeliveries(e schemas.Envelope, s schemas.State) bool {
	_, fits := f.wrapForQueue(e, s)
	return fits
}

func (f FrameMax) wrapForQueue(e schemas.Envelope, s schemas.State) (p amqp.Publishing, fits bool) {
	if !f.LeavesRoom(e) {
		s = schemas.State{
			Fingerprint: s.Fingerprint, Queue: s.Queue, Waits: s.Waits, WaitsSince: s.WaitsSince, Deliveries: s.Deliveries, Suspect: s.Suspect,
			Replay: s.Replay, ReplayOf: s.ReplayOf, OriginClaimed: s.OriginClaimed, Untapped: s.Untapped, Subscription: s.Subscription,
		}
	}
	p = f.shortened(wrapInHeaders(e, s))
	return p, HeaderFrameSize(p)+signRoom <= f.limit()
}

// shortened makes room for the headers that the broker adds. It drops the span, shortens the stack, then drops the progress, which only messages with large headers need, then drops
// older attempts and shortens the error, which only frames smaller than RabbitMQ's
// default need.
func (f FrameMax) shortened(p amqp.Publishing) amqp.Publishing {
	excess := func() int { return HeaderFrameSize(p) + signRoom + f.deathRoom() - f.limit() }
	cut := func(name string) {
		if text := header.Table(p.Headers).Text(name); text != "" && excess() > 0 {
			p.Headers[name] = header.Shorten(text, max(0, len(text)-excess()))
		}
	}
	if excess() > 0 {
		delete(p.Headers, headerTrace)
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
// leave no room for the mark, it has none; the span is the first to go. It omits a user_id that differs from
// login, since RabbitMQ refuses it.
func (f FrameMax) WrapForExchange(e schemas.Envelope, s schemas.State, login string) amqp.Publishing {
	p := e.Publishing()
	headers := header.Table(header.Without(e.Headers, header.IsState, roomForMark))
	writeState(schemas.State{Fingerprint: s.Fingerprint, Replay: s.Replay, ReplayOf: s.ReplayOf, Trace: s.Trace}, headers)
	saveTimes(headers, e)
	p.Headers = amqp.Table(headers)
	if e.Properties.UserID != login {
		p.UserId = ""
	}
	if HeaderFrameSize(p)+signRoom > f.limit() {
		delete(p.Headers, headerTrace)
	}
	if HeaderFrameSize(p)+signRoom > f.limit() {
		p.Headers = withoutState(e.Headers)
	}
	if e.Redacted {
		p.Headers = header.Withhold(p.Headers)
	}
	return p
}

// Unwrap is the inverse of Wrap, for messages in Watership's queues. A message
// without Watership's headers has a zero state and the exchange and routing key of
// its arrival. The only error is a NewerVersionError.
func Unwrap(arrived schemas.Envelope) (schemas.Envelope, schemas.State, error) {
	e, state, err := unwrapHeaders(arrived)
	if inBody, wrapped := unwrapBody(arrived); err == nil && wrapped {
		e = inBody
	}
	e.Redacted = header.Table(arrived.Headers).Int(header.Redacted) != 0
	return e, state, err
}

func unwrapHeaders(arrived schemas.Envelope) (schemas.Envelope, schemas.State, error) {
	headers := header.Table(arrived.Headers)
	state := readState(headers)
	if state.Version > header.Version {
		return schemas.Envelope{}, schemas.State{}, &NewerVersionError{state.Version}
	}
	e := arrived
	if exchange, wrapped := headers[headerExchange].(string); wrapped {
		e.Exchange, e.RoutingKey = exchange, headers.Text(headerRoutingKey)
		e.Properties.Expiration = headers.Text(headerExpiration)
		e.Properties.Priority = uint8(headers.Int(headerPriority))
		e.Properties.DeliveryMode = uint8(headers.Int(headerDeliveryMode))
		e.Properties.UserID = headers.Text(headerUserID)
	}
	e.Headers = withoutState(arrived.Headers)
	restoreTimes(headers, &e)
	if cc, present := headers[headerCarbonCopy]; present {
		e.Headers[header.CC] = cc
	}
	return e, state, nil
}

// saveTimes saves the timestamp and timestamp_in_ms of a message in headers, or
// that it has none: a broker with
// message_interceptors.incoming.set_header_timestamp sets both on each hop, and
// with overwrite replaces them
// (https://www.rabbitmq.com/docs/message-interceptors).
func saveTimes(h header.Table, e schemas.Envelope) {
	h[headerTimestamp] = ""
	if stamp := e.Properties.Timestamp; !stamp.IsZero() {
		h[headerTimestamp] = strconv.FormatInt(stamp.Unix(), 10)
	}
	if set, present := e.Headers[header.BrokerTime]; present {
		h[headerBrokerCopy] = set
	}
}

// restoreTimes restores the times that saveTimes saved. Without saved times it
// changes nothing. It writes to the headers of e, which e must not share.
func restoreTimes(h header.Table, e *schemas.Envelope) {
	saved, kept := h[headerTimestamp].(string)
	if !kept {
		return
	}
	e.Properties.Timestamp = time.Time{}
	if seconds, err := strconv.ParseInt(saved, 10, 64); err == nil {
		e.Properties.Timestamp = time.Unix(seconds, 0)
	}
	delete(e.Headers, header.BrokerTime)
	if set, present := h[headerBrokerCopy]; present {
		e.Headers[header.BrokerTime] = set
	}
}

// withoutState copies a header table without the headers of Watership and of the
// broker.
func withoutState(table amqp.Table) amqp.Table {
	return header.Without(table, header.IsState, roomForState)
}

// roomForState and roomForMark keep a header table from growing when Watership's
// headers are added. More room than needed makes every iteration over it slower.
const (
	roomForState = 14 // of a handled message without a trace
	roomForMark  = 5
)

// roomFor returns the number of headers that a state adds, if nothing has failed.
func roomFor(s schemas.State) int {
	if s.Trace != "" {
		return roomForState + 1
	}
	return roomForState
}
