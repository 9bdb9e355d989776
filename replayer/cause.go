package replayer

import (
	"errors"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer/transform"
)

// Cause is the kind of a Failure. Its values are stable.
type Cause string

// The causes for which one message is not sent, and the job goes on.
const (
	ReachedNoQueue  Cause = "unroutable" // no queue got the message
	NotConfirmed    Cause = "nacked"     // a queue did not take it, as a full one does
	RefusedByBroker Cause = "refused"    // the broker did not accept it
	BodyNotStored   Cause = "no_body"    // the store does not have its body
	TransformFailed Cause = "transform"  // the program of the job failed
	OriginalSealed  Cause = "redacted"   // the message is redacted, and its original cannot be opened
	SubjectErased   Cause = "erased"     // the key of the person whom the message is about was destroyed
)

// causeOf returns why a message was not sent; "" if the next one would not arrive either.
func causeOf(err error) Cause {
	var unroutable *rabbit.UnroutableError
	var nacked *rabbit.NackedError
	var refused *rabbit.RefusedError
	var noBody *NoBodyError
	var failed *transform.Error
	var redacted *privacy.RedactedError
	var erased *privacy.ErasedError
	var unread *eventstore.Error // of the keys of subjects
	switch {
	case errors.As(err, &unread):
		return ""
	case errors.As(err, &erased):
		return SubjectErased
	case errors.As(err, &redacted):
		return OriginalSealed
	case errors.As(err, &unroutable):
		return ReachedNoQueue
	case errors.As(err, &nacked):
		return NotConfirmed
	case errors.As(err, &refused):
		return RefusedByBroker
	case errors.As(err, &noBody):
		return BodyNotStored
	case errors.As(err, &failed):
		return TransformFailed
	}
	return ""
}
