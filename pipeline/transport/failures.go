package transport

import (
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// failures are the messages of one call that were not published.
type failures []failure

type failure struct {
	message *message.Message
	cause   error
}

func (f failures) err() error {
	errs := make([]error, len(f))
	for i := range f {
		errs[i] = fmt.Errorf("message %s: %w", f[i].message.UUID, f[i].cause)
	}
	return errors.Join(errs...)
}

func (f failures) messages() []*message.Message {
	messages := make([]*message.Message, len(f))
	for i := range f {
		messages[i] = f[i].message
	}
	return messages
}

// exchangeMissing reports whether the exchange of a message does not exist.
func (f failures) exchangeMissing() bool {
	for i := range f {
		var refused *RefusedError
		if errors.As(f[i].cause, &refused) && refused.Code == amqp.NotFound {
			return true
		}
	}
	return false
}
