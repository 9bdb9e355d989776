package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/output"
	"github.com/watershipmq/watership/schemas"
)

// poisoner is the poison handler: the `poisoned` event with the whole envelope,
// the parked copy if the state asks for one, then the acknowledgement. The event
// may be the only copy of the message, so it cannot be switched off.
type poisoner struct {
	*messageFlow
	declare func(parking string) error
}

func (p *poisoner) handle(msg *message.Message) error {
	ctx := msg.Context()
	arrived, _ := schemas.FromContext(ctx)
	e, state, body := p.failedMessage(arrived)
	if err := p.publishPoisoned(ctx, e, state, body); err != nil {
		return err
	}
	return p.park(ctx, e, state, body)
}

// failedMessage returns a message of the poison queue, its state, and the place of its body.
func (p *poisoner) failedMessage(arrived schemas.Envelope) (e schemas.Envelope, state schemas.State, body wire.OmittedBody) {
	verified, found, err := p.verifier.VerifyPoison(arrived)
	e, state = verified.Envelope, verified.State
	switch {
	case err != nil: // headers of a newer version: kept with the message
		e, state = arrived, schemas.State{Fingerprint: p.verifier.Fingerprints.Of(arrived), Failure: failure(err)}
	case !found:
		state.Failure = failure(errors.New("it was in the poison queue without a state of its own"))
	}
	if state.EventID == "" { // the same id each time it is delivered
		state.EventID, state.Time = "poison:"+state.Fingerprint, p.now()
	}
	if elsewhere, omitted := wire.OmittedBodyOf(arrived); found && omitted {
		return e, state, elsewhere
	}
	return e, state, wire.OmittedBody{Size: len(e.Body), In: schemas.BodyHere}
}

func (p *poisoner) publishPoisoned(ctx context.Context, e schemas.Envelope, state schemas.State, body wire.OmittedBody) error {
	if body.In != schemas.BodyHere {
		return p.publishEventWithoutBody(ctx, schemas.Poisoned, e, state, body)
	}
	return p.publishEvent(ctx, schemas.Poisoned, e, state)
}

// park publishes a copy for people who inspect queues. A parking queue that is full or
// does not confirm blocks no message: the event has it.
func (p *poisoner) park(ctx context.Context, e schemas.Envelope, state schemas.State, body wire.OmittedBody) error {
	queue := p.topology.Parking(state.Queue)
	if !state.Park || p.topology.Owns(queue) {
		return nil
	}
	state.Route, state.Park = false, false
	m := rabbit.Message{Exchange: p.topology.Direct(), RoutingKey: queue, Publishing: p.frameMax().Wrap(e, state)}
	if body.In != schemas.BodyHere {
		m.Publishing = p.wrapWithoutBody(e, state, body)
	}
	err := p.queueLimiter.Publish(ctx, queue, func(ctx context.Context, by publisher) error {
		err := by.Publish(ctx, m)
		var missing *rabbit.UnroutableError
		if !errors.As(err, &missing) {
			return err
		}
		if err := p.declare(queue); err != nil {
			return err
		}
		return by.Publish(ctx, m)
	})
	if err != nil && output.CannotRetry(ctx, err) {
		return fmt.Errorf("parking a message in queue %q: %w", queue, err)
	}
	if err != nil {
		p.logger.Error("a message is poison without a parked copy", "parking", queue,
			"message", state.Message, "fingerprint", state.Fingerprint, "error", err)
	}
	return nil
}
