package replayer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// missingBodies are events without bodies, by the fingerprint of their message.
type missingBodies map[string][]*schemas.Event

// setBody sets the body of the events with this fingerprint and removes them from the
// map. It ignores a body that does not match the fingerprint, whatever its message
// claims.
func (m missingBodies) setBody(fingerprint string, body []byte) {
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

// unstorableBodies searches the queue of unstorable messages for bodies. It gets one
// message at a time and acknowledges none, so that the broker requeues all when the
// channel closes. Until then other consumers do not see them.
func (l *lease) unstorableBodies(ctx context.Context, queue string, bodies missingBodies) error {
	err := l.Do(ctx, func(ch *amqp.Channel) error {
		for len(bodies) > 0 && ctx.Err() == nil {
			d, found, err := ch.Get(queue, false)
			if err != nil || !found {
				return err
			}
			// A message of a newer version cannot be read and is skipped.
			if e, state, err := schemas.Unwrap(schemas.FromDelivery(d)); err == nil {
				bodies.setBody(state.Fingerprint, e.Body)
			}
		}
		return context.Cause(ctx)
	})
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		return nil // without the queue no message is unstorable
	}
	if err != nil {
		return fmt.Errorf("looking for bodies in the queue %s: %w", queue, err)
	}
	return nil
}
