// Package bodies finds the bodies of events that were stored without them: in other events
// of the same message, and in the queue of unstorable messages.
package bodies

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// Store reads the events of messages.
type Store interface {
	Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error]
}

// Missing are events without bodies.
type Missing struct {
	fingerprints  schemas.Fingerprints
	byFingerprint map[string][]*schemas.Event // of their message

	// Opener opens originals of redacted messages. nil: events get the bodies as they are recorded.
	Opener privacy.Opener
}

// NewMissing returns an empty Missing.
func NewMissing(fingerprints schemas.Fingerprints) Missing {
	return Missing{fingerprints: fingerprints, byFingerprint: map[string][]*schemas.Event{}}
}

// Add adds an event, which gets its body when it is found.
func (m Missing) Add(ctx context.Context, e *schemas.Event) {
	_ = privacy.Open(ctx, m.Opener, e) // it stays redacted, and who would send it says why
	m.byFingerprint[e.Fingerprint] = append(m.byFingerprint[e.Fingerprint], e)
}

// Len returns the number of messages whose bodies were not found.
func (m Missing) Len() int { return len(m.byFingerprint) }

// setBody gives the body of a message to its events. One whose own headers are redacted gets the
// whole message. Of a redacted message they get the redacted body, its mark, and the sealed original, which
// says why it cannot be opened. It ignores a body that does not match the fingerprint, whatever its message
// claims.
func (m Missing) setBody(fingerprint string, found schemas.Envelope, sealed []byte) {
	events := slices.DeleteFunc(m.byFingerprint[fingerprint], func(e *schemas.Event) bool {
		whole := e.Envelope
		whole.Body = found.Body
		if e.Envelope.Redacted && !found.Redacted {
			whole = found
		}
		if whole.Redacted = whole.Redacted || found.Redacted; !whole.Redacted && !m.fingerprints.Matches(whole, fingerprint) {
			return false
		}
		e.Envelope, e.BodyIn, e.Sealed = whole, schemas.BodyHere, sealed
		return true
	})
	if m.byFingerprint[fingerprint] = events; len(events) == 0 {
		delete(m.byFingerprint, fingerprint)
	}
}

// FindStored searches the events of the messages in the store. A redacted body counts only where no event
// has an original that can be opened.
func (m Missing) FindStored(ctx context.Context, store Store) error {
	var messages kql.Or
	for fingerprint := range m.byFingerprint {
		messages = append(messages, kql.FieldIs("watership.fingerprint", fingerprint))
	}
	if len(messages) == 0 {
		return nil
	}
	whole := kql.Not{Node: kql.Exists{Field: kql.Pattern{"watership.body_in"}}}
	redacted := map[string]schemas.Event{} // by fingerprint
	for other, err := range storeread.Readable(store.Events(ctx, eventstore.Selection{Query: kql.And{messages, whole}, Order: eventstore.BySequence})) {
		if err != nil {
			return fmt.Errorf("looking up bodies: %w", err)
		}
		if other.BodyIn != schemas.BodyHere {
			continue
		}
		if privacy.Open(ctx, m.Opener, &other) != nil {
			if _, found := redacted[other.Fingerprint]; !found {
				redacted[other.Fingerprint] = other
			}
			continue
		}
		if m.setBody(other.Fingerprint, other.Envelope, nil); m.Len() == 0 {
			return nil
		}
	}
	for fingerprint, other := range redacted {
		m.setBody(fingerprint, other.Envelope, other.Sealed)
	}
	return nil
}

const (
	readings     = 4                      // of the queue of unstorable messages
	readInterval = 250 * time.Millisecond // between two of them
)

// FindUnstorable searches the queue of unstorable messages, when no other process or goroutine does. It
// searches some times for a message that was stored as unstorable, since the broker may still requeue what
// the one before has read.
func (m Missing) FindUnstorable(ctx context.Context, channels rabbit.Channels, queue string) error {
	err := m.readUnstorable(ctx, channels, queue)
	for again := 1; again < readings && err == nil && m.lackUnstorable(); again++ {
		if err = backoff.Sleep(ctx, readInterval); err == nil {
			err = m.readUnstorable(ctx, channels, queue)
		}
	}
	if rabbit.IsMissing(err) {
		return nil // without the queue no message is unstorable
	}
	if err != nil {
		return fmt.Errorf("looking for bodies in the queue %s: %w", queue, err)
	}
	return nil
}

// readUnstorable gets one message at a time and acknowledges none, so that the broker requeues all when the
// channel closes. Until then other consumers do not see them. A copy that does not open counts only where
// no other one of its message does.
func (m Missing) readUnstorable(ctx context.Context, channels rabbit.Channels, queue string) error {
	return rabbit.DoAlone(ctx, channels, queue, func(ch *amqp.Channel) error {
		closed := map[string]closedCopy{} // by fingerprint
		for m.Len() > 0 && ctx.Err() == nil {
			d, found, err := ch.Get(queue, false)
			if err != nil {
				return err
			}
			if !found {
				break
			}
			m.addUnstorable(ctx, d, closed)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for fingerprint, first := range closed {
			m.setBody(fingerprint, first.redacted, first.sealed)
		}
		return nil
	})
}

// closedCopy is a redacted message, whose original does not open or was not kept.
type closedCopy struct {
	redacted schemas.Envelope
	sealed   []byte
}

// addUnstorable sets the body of a message in the queue, or adds it to closed. A message of a newer version
// cannot be read and is skipped.
func (m Missing) addUnstorable(ctx context.Context, d amqp.Delivery, closed map[string]closedCopy) {
	e, state, err := wire.Unwrap(schemas.FromDelivery(d))
	if err != nil {
		return
	}
	var sealed []byte
	if wire.HasSealedBody(d.Headers) {
		if m.Opener == nil {
			return
		}
		sealed = e.Body
		if e, err = m.Opener.OpenSealed(ctx, sealed, state.Fingerprint); err != nil {
			e = schemas.Envelope{Redacted: true}
		}
	}
	if !e.Redacted {
		m.setBody(state.Fingerprint, e, nil)
	} else if _, found := closed[state.Fingerprint]; !found {
		closed[state.Fingerprint] = closedCopy{e, sealed}
	}
}

// lackUnstorable reports whether the queue of unstorable messages should have one of the bodies.
func (m Missing) lackUnstorable() bool {
	for _, events := range m.byFingerprint {
		if slices.ContainsFunc(events, func(e *schemas.Event) bool { return e.BodyIn == schemas.BodyInUnstorable }) {
			return true
		}
	}
	return false
}

// comesWithin is the time in which the body of a new event may come. The indexers of a source store
// `published` events and those that refer to them each at its own pace, which differ after an outage.
const comesWithin = 15 * time.Minute

// MayCome returns whether the body of an event, which no stored event has, may be stored later.
func MayCome(e schemas.Event) bool {
	return e.BodyIn == schemas.BodyInPublished && time.Since(time.UnixMicro(e.Sequence)) < comesWithin
}

// Summaries reads summaries of events.
type Summaries interface {
	Summaries(ctx context.Context, selection eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]
}

// CountUnknown returns the number of messages whose bodies no event has. lacking are messages
// by fingerprint, which it changes.
func CountUnknown(ctx context.Context, store Summaries, lacking map[string]int) (unknown int, err error) {
	if len(lacking) == 0 {
		return 0, nil
	}
	elsewhere := kql.Not{Node: kql.FieldIs("watership.body_in", string(schemas.BodyInPublished))}
	fingerprints := eventstore.FieldIn{Field: "watership.fingerprint", Values: slices.Collect(maps.Keys(lacking))}
	for summary, err := range store.Summaries(ctx, eventstore.Selection{Query: elsewhere}, fingerprints) {
		if err != nil {
			return 0, fmt.Errorf("looking up bodies: %w", err)
		}
		if delete(lacking, summary.Fingerprint); len(lacking) == 0 {
			break
		}
	}
	for _, messages := range lacking {
		unknown += messages
	}
	return unknown, nil
}
