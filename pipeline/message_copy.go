package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// messageCopy is a copy of a message with its body, to be published. If the broker
// refuses it, most often because the headers and the body are too large together, the
// body is published to the queue of unstorable messages and the rest without it.
type messageCopy struct {
	*messageFlow
	envelope schemas.Envelope
	state    schemas.State
	to       rabbit.Message

	split bool // the body is in the queue of unstorable messages
}

func (f *messageFlow) newMessageCopy(e schemas.Envelope, state schemas.State, to rabbit.Message) *messageCopy {
	return &messageCopy{messageFlow: f, envelope: e, state: state, to: to}
}

// publish may be called again after an error.
func (c *messageCopy) publish(ctx context.Context) error {
	if !c.split {
		c.to.Publishing = c.frameMax().Wrap(c.envelope, c.state)
		err := c.publisher.Publish(ctx, c.to)
		if !refusesMessage(err) || len(c.envelope.Body) == 0 {
			return err
		}
		c.logger.Warn("a message is too large for the broker with its headers; its body is published to the queue of unstorable messages",
			"queue", c.queue, "body", c.topology.Unstorable(), "fingerprint", c.state.Fingerprint, "error", err)
		if err := c.publishBody(ctx); err != nil {
			return err
		}
		c.split = true
	}
	c.to.Publishing = c.wrapWithoutBody(c.envelope, c.state, c.body())
	return c.publisher.Publish(ctx, c.to)
}

func (c *messageCopy) publishBody(ctx context.Context) error {
	err := c.publisher.Publish(ctx, rabbit.Message{
		Exchange: c.topology.Direct(), RoutingKey: c.topology.Unstorable(),
		Publishing: c.frameMax().WrapBody(c.envelope, c.state),
	})
	if err != nil {
		return fmt.Errorf("publishing the body to queue %q: %w", c.topology.Unstorable(), err)
	}
	return nil
}

func (c *messageCopy) body() wire.OmittedBody {
	return wire.OmittedBody{Size: len(c.envelope.Body), In: schemas.BodyInUnstorable}
}

// refusesMessage reports whether the broker refuses a message from every login.
func refusesMessage(err error) bool {
	var refused *rabbit.RefusedError
	return errors.As(err, &refused) && refused.CausedByMessage()
}
