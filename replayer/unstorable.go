package replayer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// missingBodies are events without their bodies, by the fingerprint of their message.
type missingBodies map[string][]*schemas.Event

// complete gives a body to the events of its message, which then are not missing. A body
// with which a message has another fingerprint is another's, whatever it is kept as.
func (m missingBodies) complete(fingerprint string, body []byte) {
	m[fingerprint] = slices.DeleteFunc(m[fingerprint], func(e *schemas.Event) bool {
		whole := e.Envelope
		whole.Body = body
		if whole.Fingerprint() != fingerprint {
			return false
		}
		e.Envelope, e.BodyIn = whole, schemas.BodyHere
		return true
	})
	if len(m[fingerprint]) == 0 {
		delete(m, fingerprint)
	}
}

// unstorableBodies looks for bodies in the queue of what was too large for the store. It
// reads one message at a time and acknowledges none, so that with the end of the
// channel all go back to where they were: whoever replays them again finds them.
// Meanwhile nobody else does.
func (l *lease) unstorableBodies(ctx context.Context, queue string, bodies missingBodies) error {
	err := l.conn.Do(ctx, func(ch *amqp.Channel) error {
		for len(bodies) > 0 && ctx.Err() == nil {
			d, there, err := ch.Get(queue, false)
			if err != nil || !there {
				return err
			}
			// What a newer version has kept is not ours to send.
			if e, state, err := schemas.Unwrap(schemas.FromDelivery(d)); err == nil {
				bodies.complete(state.Fingerprint, e.Body)
			}
		}
		return context.Cause(ctx)
	})
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		return nil // without the queue nothing was set aside
	}
	if err != nil {
		return fmt.Errorf("looking for bodies in the queue %s: %w", queue, err)
	}
	return nil
}
