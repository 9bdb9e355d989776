package subscription

import (
	"cmp"
	"errors"

	"github.com/watershipmq/watership/eventstore"
)

// Cause is why a subscription delivers nothing, or why a message is parked. Its values are stable.
type Cause string

// Causes of a subscription that waits.
const (
	QueueMissing Cause = "queue_missing" // the queue of the target does not exist
	QueueRefuses Cause = "queue_refuses" // it refuses messages, as a full one does
	QueueBacklog Cause = "queue_backlog" // it has as many messages as Target.MaxBacklog
	BodyPending  Cause = "body_pending"  // the body of the next event is not stored yet
	StoreError   Cause = "store_error"   // the error is the store's
	BrokerError  Cause = "broker_error"  // the error is RabbitMQ's
	OtherError   Cause = "error"         // the error says it
	Unattended   Cause = "unattended"    // no process has run it for a minute; records do not have it
)

// TargetError is the cause of a subscription that waits, and of a parked message: the error is from
// the URL or the handler.
const TargetError Cause = "target_error"

// Causes of a parked message.
const (
	AttemptsExhausted Cause = "attempts_exhausted" // as TargetError, after the attempts of Subscription.Policy
	MessageRefused    Cause = "message_refused"    // the error is RabbitMQ's
	HeadersTooLong    Cause = "headers_too_long"   // they leave no room for the subscription's
	BodyMissing       Cause = "body_missing"       // no event of the message has its body
	EventMissing      Cause = "event_missing"      // the event is no longer in the store
	UpcastFailed      Cause = "upcast_failed"      // the error says why Subscription.Upcast cannot change it
	Unreadable        Cause = "unreadable"         // the error says why the document cannot be read
	OriginalSealed    Cause = "redacted"           // the message is redacted, and the error says why its original cannot be opened
	SubjectErased     Cause = "erased"             // the key of the person whom the message is about was destroyed
	StreamHeld        Cause = "stream_held"        // an earlier message of its stream is parked
)

// Text returns the cause in words, with the error that some causes have. A cause that this release does
// not know comes from a later one.
func (c Cause) Text(err string) string {
	text := words(c)
	switch {
	case err == "":
		return cmp.Or(text, string(c))
	case text == "":
		return err
	}
	return text + ": " + err
}

// words returns the words of a cause; "": it is said by its error.
func words(c Cause) string {
	switch c {
	case Unattended:
		return "no process runs it"
	case QueueMissing:
		return "the queue does not exist"
	case QueueRefuses:
		return "the queue refuses messages, as a full one does"
	case QueueBacklog:
		return "the queue has as many messages as its backlog may have"
	case BodyPending:
		return "the body of the next event is not stored yet"
	case AttemptsExhausted:
		return "the policy allows no further attempt"
	case HeadersTooLong:
		return "the headers of the message leave no room for the name and the position of the subscription"
	case BodyMissing:
		return "no event of the message has its body, which may be past its retention"
	case OriginalSealed:
		return "a redacted message is never delivered"
	case SubjectErased:
		return "the message was erased"
	case StreamHeld:
		return "an earlier message of its stream is parked"
	case UpcastFailed:
		return "the upcast of the subscription failed"
	case EventMissing:
		return "the event is no longer in the store"
	}
	return ""
}

// reason is why a message is not delivered, or not yet. err is the error of a program, or of RabbitMQ
// or the store; nil: the cause says it.
type reason struct {
	cause Cause
	err   error
}

// Error implements error.
func (r reason) Error() string {
	if r.err == nil {
		return r.cause.Text("")
	}
	return r.cause.Text(r.err.Error())
}

func (r reason) Unwrap() error { return r.err }

// text returns the text of an error for a record; "": the cause says it.
func (c Config) text(of reason) string {
	if of.err == nil {
		return ""
	}
	text := of.err.Error()
	if c.Text != nil {
		text = c.Text(text)
	}
	return text[:min(len(text), maxError)]
}

// waitError ends a session that continues after a pause with the same message: no message is
// at fault.
type waitError struct{ reason }

// poisonError says that a message cannot be delivered.
type poisonError struct{ reason }

func waits(cause Cause, err error) error  { return waitError{reason{cause, err}} }
func poison(cause Cause, err error) error { return poisonError{reason{cause, err}} }

// reasonToWait returns why a session ended that goes on.
func reasonToWait(err error) reason {
	var wait waitError
	var store *eventstore.Error
	switch {
	case errors.As(err, &wait):
		return wait.reason
	case errors.As(err, &store):
		return reason{StoreError, err}
	}
	return reason{OtherError, err}
}
