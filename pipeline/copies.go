package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// copied is a copy of a whole message in the making. Where the broker refuses the
// copy, most often because headers that leave no room for ours travel in front of a
// body that is large already, the body goes to the queue of unstorable messages and
// the rest goes on without.
type copied struct {
	*steps
	envelope schemas.Envelope
	state    schemas.State
	to       rabbit.Message

	split bool // the body is safe in the queue of unstorable messages
}

func (s *steps) copies(e schemas.Envelope, state schemas.State, to rabbit.Message) *copied {
	return &copied{steps: s, envelope: e, state: state, to: to}
}

// publish may be called again after an error.
func (c *copied) publish(ctx context.Context) error {
	if !c.split {
		c.to.Publishing = c.frameMax().Wrap(c.envelope, c.state)
		err := c.publisher.Publish(ctx, c.to)
		if !condemned(err) || len(c.envelope.Body) == 0 {
			return err
		}
		c.logger.Warn("a message is too large for the broker with its headers; its body goes to a queue of its own",
			"queue", c.queue, "body", c.topology.Unstorable(), "fingerprint", c.state.Fingerprint, "error", err)
		if err := c.publishBody(ctx); err != nil {
			return err
		}
		c.split = true
	}
	c.to.Publishing = c.frameMax().WrapWithoutBody(c.envelope, c.state, c.body())
	return c.publisher.Publish(ctx, c.to)
}

func (c *copied) publishBody(ctx context.Context) error {
	err := c.publisher.Publish(ctx, rabbit.Message{
		Exchange: c.topology.Direct(), RoutingKey: c.topology.Unstorable(),
		Publishing: c.frameMax().WrapBody(c.envelope, c.state),
	})
	if err != nil {
		return fmt.Errorf("keeping the body in queue %q: %w", c.topology.Unstorable(), err)
	}
	return nil
}

func (c *copied) body() schemas.OmittedBody {
	return schemas.OmittedBody{Size: len(c.envelope.Body), In: schemas.BodyInUnstorable}
}

// condemned says whether the broker refuses a message whoever sends it.
func condemned(err error) bool {
	var refused *rabbit.RefusedError
	return errors.As(err, &refused) && refused.CondemnsMessage()
}
