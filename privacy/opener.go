package privacy

import (
	"context"
	"errors"

	"github.com/watershipmq/watership/schemas"
)

// Opener opens the sealed originals of redacted messages.
type Opener interface {
	// Open replaces the message of an event by its original, if it is redacted. An error is a
	// *RedactedError, and the event is as it was.
	Open(ctx context.Context, e *schemas.Event) error

	// OpenSealed returns the original of a message with a fingerprint.
	OpenSealed(ctx context.Context, sealed []byte, fingerprint string) (schemas.Envelope, error)
}

// Open replaces the message of an event by its original, if it is redacted. A nil opener opens none. An
// error is a *RedactedError, and the event is as it was.
func Open(ctx context.Context, opener Opener, e *schemas.Event) error {
	switch {
	case !e.Envelope.Redacted:
		return nil
	case opener == nil:
		return &RedactedError{EventID: e.EventID}
	}
	return opener.Open(ctx, e)
}

// RedactedError reports that the message of an event is redacted, so that it cannot be sent, and
// why its original cannot be had.
type RedactedError struct {
	EventID string
	Err     error // such as an *ErasedError; nil: this process opens no originals
}

func (e *RedactedError) Error() string {
	if erased, is := errors.AsType[*ErasedError](e.Err); is {
		return "the message of event " + e.EventID + " was erased: the key of " + erased.Subject + " is destroyed"
	}
	text := "the message of event " + e.EventID + " is redacted, and a redacted message is never sent"
	if e.Err != nil {
		text += ": its original cannot be opened: " + e.Err.Error()
	}
	return text
}

// Unwrap returns why the original cannot be opened.
func (e *RedactedError) Unwrap() error { return e.Err }
