package pipeline

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/usercode"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Call calls the handler of the route with a message, and returns the messages that the route
// would publish. It publishes nothing: to compare a new version of a handler with the history,
// see package replayer/shadow. The attempt is the one of the context, see
// retry.ContextWithAttempt.
func (r Route) Call(ctx context.Context, e schemas.Envelope) ([]schemas.Envelope, error) {
	attempt := retry.AttemptFrom(ctx)
	msg := transport.Marshaler{}.NewMessage(e)
	msg.SetContext(schemas.NewContext(ctx, e))
	produced, err := usercode.Recover(func() ([]*message.Message, error) { return r.Handler(msg) })
	if err != nil {
		return nil, err
	}
	h := routeHandler{messageFlow: &messageFlow{newID: watermill.NewULID}, route: r}
	return h.outgoing(produced, schemas.VerifiedState{Envelope: e, State: schemas.State{Fingerprint: attempt.Fingerprint, Replay: attempt.Replay}})
}
