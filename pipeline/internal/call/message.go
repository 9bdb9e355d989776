package call

import (
	"context"
	"maps"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// Message returns the copy of a message that a handler gets: as first published,
// in its context and in its metadata. It shares nothing with the envelope that is
// retried, and has no headers of Watership, so that handlers do not copy those to the
// messages that they publish.
func Message(ctx context.Context, arrived *message.Message, e schemas.Envelope) *message.Message {
	e = e.Clone()
	var copied *message.Message
	if hasWatershipHeaders(arrived) {
		copied = transport.Marshaler{}.NewMessage(e)
	} else {
		copied = message.NewMessage(arrived.UUID, e.Body)
		copied.Metadata = maps.Clone(arrived.Metadata)
	}
	copied.SetContext(schemas.NewContext(ctx, e))
	return copied
}

// hasWatershipHeaders reports whether a message has headers of Watership.
func hasWatershipHeaders(msg *message.Message) bool {
	arrived, _ := schemas.FromContext(msg.Context())
	for name := range arrived.Headers {
		if strings.HasPrefix(name, "watership-") {
			return true
		}
	}
	return false
}
