package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// JSON returns a handler for messages whose bodies are the JSON of a T. A body that is another is poison at once,
// with the class schema as of package bodyschema, since it fits at no later attempt either. Bodies are decompressed and
// decoded as Envelope.BodyText does, and members that T does not have are ignored. The context of handle has the
// envelope (schemas.FromContext) and the attempt (retry.AttemptFrom).
func JSON[T any](handle func(ctx context.Context, value T) ([]*message.Message, error)) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		e, _ := schemas.FromContext(msg.Context())
		e.Body = msg.Payload
		text, isText := e.BodyText()
		if !isText {
			text = e.Body
		}
		var value T
		err := json.Unmarshal(text, &value)
		if err != nil && !isText {
			err = errors.New("it is no text, or compressed text that cannot be decompressed or is longer than 4 MiB")
		}
		if err != nil {
			return nil, retry.Permanent(retry.Class("schema", fmt.Errorf("the body is no JSON of %T: %w", value, err)))
		}
		return handle(msg.Context(), value)
	}
}
