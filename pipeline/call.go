package pipeline

import (
	"context"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// Call calls Check and the handler of the route with a message, and returns the messages that the route
// would publish. It publishes nothing: to compare a new version of a handler with the history,
// see package replayer/shadow. The attempt is the one of the context, see
// retry.ContextWithAttempt.
func (r Route) Call(ctx context.Context, e schemas.Envelope) ([]schemas.Envelope, error) {
	msg := transport.Marshaler{}.NewMessage(e)
	msg.SetContext(schemas.NewContext(ctx, e))
	return usercode.Recover(func() ([]schemas.Envelope, error) {
		if err := r.check(e); err != nil {
			return nil, err
		}
		produced, err := r.Handler(msg)
		if err != nil {
			return nil, err
		}
		messages := make([]schemas.Envelope, len(produced))
		for i, returned := range produced {
			if messages[i], err = OutgoingEnvelope(msg.Context(), returned, i, r.Publish); err != nil {
				return nil, err
			}
		}
		return messages, nil
	})
}
