package replayer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// missingBodies are events without bodies.
type missingBodies struct {
	fingerprints  schemas.Fingerprints
	byFingerprint map[string][]*schemas.Event // of their message
}

func (m missingBodies) add(e *schemas.Event) {
	m.byFingerprint[e.Fingerprint] = append(m.byFingerprint[e.Fingerprint], e)
}

func (m missingBodies) len() int { return len(m.byFingerprint) }

// setBody sets the body of the events with this fingerprint and removes them. It ignores a
// body that does not match the fingerprint, whatever its message claims.
func (m missingBodies) setBody(fingerprint string, body []byte) {
	events := slices.DeleteFunc(m.byFingerprint[fingerprint], func(e *schemas.Event) bool {
		whole := e.Envelope
		whole.Body = body
		if !m.fingerprints.Matches(whole, fingerprint) {
			return false
		}
		e.Envelope, e.BodyIn = whole, schemas.BodyHere
		return true
	})
	if m.byFingerprint[fingerprint] = events; len(events) == 0 {
		delete(m.byFingerprint, fingerprint)
	}
}

// unstorableBodies searches the queue of unstorable messages for bodies. It gets one
// message at a time and acknowledges none, so that the broker requeues all when the
// channel closes. Until then other consumers do not see them.
func (l *lease) unstorableBodies(ctx context.Context, queue string, bodies missingBodies) error {
	err := l.Do(ctx, func(ch *amqp.Channel) error {
		for bodies.len() > 0 && ctx.Err() == nil {
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
