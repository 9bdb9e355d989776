package transfer

import (
	"fmt"
	"io"
	"iter"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/indent"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// Complete returns the envelope of a new message: it is persistent, and has a content type
// if its body is JSON.
func Complete(e schemas.Envelope) schemas.Envelope {
	e.Properties.DeliveryMode = amqp091.Persistent
	if e.Properties.ContentType == "" && indent.IsJSON(e.Body) {
		e.Properties.ContentType = "application/json"
	}
	return e
}

// NewMessage returns the message of an envelope.
func NewMessage(e schemas.Envelope) rabbit.Message {
	return rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}
}

// ForLogin is NewMessage for a publisher with a login. It omits any other user id, which
// the broker would refuse.
func ForLogin(e schemas.Envelope, login string) rabbit.Message {
	if e.Properties.UserID != login {
		e.Properties.UserID = ""
	}
	return NewMessage(e)
}

// Envelopes yields the messages of an export. An error ends the sequence.
func Envelopes(in io.Reader) iter.Seq2[schemas.Envelope, error] {
	return func(yield func(schemas.Envelope, error) bool) {
		for event, err := range Read(in) {
			if err == nil && event.BodyIn != schemas.BodyHere {
				err = fmt.Errorf("event %s was recorded without its body: export the published or poisoned event", event.EventID)
			}
			if err == nil && event.Envelope.Redacted {
				err = &privacy.RedactedError{EventID: event.EventID}
			}
			if err != nil {
				yield(schemas.Envelope{}, err)
				return
			}
			if !yield(event.Envelope, nil) {
				return
			}
		}
	}
}
