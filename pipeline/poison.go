package pipeline

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/schemas"
)

// poisoner is the poison handler: the `poisoned` event with the whole envelope,
// then the acknowledgement. The event may be the only copy of the message, so
// it cannot be switched off.
type poisoner struct {
	*steps
}

func (p *poisoner) handle(msg *message.Message) error {
	ctx := msg.Context()
	arrived, _ := schemas.FromContext(ctx)
	e, state, err := schemas.Unwrap(arrived)
	if err != nil {
		return err
	}
	if state.EventID == "" { // put here by hand: the same id each time it is delivered
		state.Fingerprint = e.Fingerprint()
		state.EventID = "poison:" + state.Fingerprint
		state.Time = p.now()
	}
	if err := p.event(ctx, schemas.Poisoned, e, state); err != nil {
		return err
	}
	p.logger.Warn("gave a message up", "queue", state.Queue, "attempts", state.Attempt,
		"message", state.Message, "fingerprint", state.Fingerprint, "error", state.Failure.Message)
	return nil
}
