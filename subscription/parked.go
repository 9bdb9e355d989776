package subscription

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Parked is a message that a subscription could not deliver. The message itself is in its
// event.
type Parked struct {
	Subscription string            `json:"subscription"`
	Position     eventstore.Cursor `json:"position"`           // of the event; of the one before for a document that cannot be read
	EventID      string            `json:"event_id,omitempty"` // "": the document cannot be read
	Action       schemas.Action    `json:"action,omitempty"`
	MessageID    string            `json:"message_id,omitempty"`
	Stream       string            `json:"stream,omitempty"` // of the message
	Cause        Cause             `json:"cause"`
	Error        string            `json:"error,omitempty"` // of a program or RabbitMQ, or about a document that cannot be read
	Time         time.Time         `json:"time"`
	Retry        bool              `json:"retry,omitempty"` // the runner tries it again
}

// MaxParked is the number of parked messages at which a subscription stops.
const MaxParked = 1000

const maxError = 1 << 10 // bytes of an error in a record

// parkedKind returns the kind of the records with the parked messages of a subscription.
func parkedKind(name string) string { return "parked." + name }

// id is the same for a message that is parked again after a crash.
func (p Parked) id() string {
	if p.EventID != "" {
		return fmt.Sprintf("%019d:%s", p.Position.Sequence, p.EventID)
	}
	sum := sha256.Sum256([]byte(p.Error))
	return fmt.Sprintf("%019d:%s:%s", p.Position.Sequence, p.Position.EventID, hex.EncodeToString(sum[:8]))
}

// parkedRecords are the stored parked messages.
type parkedRecords struct{ store Records }

// Parked returns the parked messages of a subscription, sorted by position.
func (r parkedRecords) Parked(ctx context.Context, name string) ([]Parked, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var list []Parked
	for document, err := range r.store.Records(ctx, parkedKind(name)) {
		var p Parked
		if err == nil {
			err = json.Unmarshal(document, &p)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the parked messages of subscription %s: %w", name, err)
		}
		list = append(list, p)
	}
	slices.Reverse(list)
	return list, nil
}

// park stores a parked message.
func (r parkedRecords) park(ctx context.Context, p Parked) error {
	_, err := r.saveParked(ctx, p, "")
	return err
}

// saveParked returns false if another process has changed the message, or parked it.
func (r parkedRecords) saveParked(ctx context.Context, p Parked, version string) (bool, error) {
	saved, err := eventstore.SaveRecord(ctx, r.store, parkedKind(p.Subscription), p.id(), version, p)
	return saved != "", err
}

// RetryParked lets the runner deliver parked messages again, which it does even if the
// subscription is at a later position. Those that fail stay parked. Without positions it is
// all of them, but for documents that cannot be read, which have no message to deliver. It is an
// Error if only such documents are at the positions.
func (s *Subscriptions) RetryParked(ctx context.Context, name, by string, positions []string) (int, error) {
	unreadable := 0
	marked, err := s.eachParked(ctx, name, positions, func(p Parked, version string) (bool, error) {
		if p.EventID == "" {
			unreadable++
			return false, nil
		}
		p.Retry = true
		return s.saveParked(ctx, p, version)
	})
	if err == nil && marked == 0 && unreadable > 0 {
		err = mistakef("subscription %s: a parked document that cannot be read has no message to deliver: drop it", name)
	}
	if err != nil || marked == 0 {
		return marked, err
	}
	_, err = s.change(ctx, name, by, func(*Subscription) {}) // so that its runner looks
	return marked, err
}

// Drop removes parked messages from the list. Without positions it is all of them. The later messages of
// their streams, of ParkStream, are delivered then.
func (s *Subscriptions) Drop(ctx context.Context, name string, positions []string) (int, error) {
	dropped, err := s.drop(ctx, name, positions)
	if err != nil || dropped == 0 {
		return dropped, err
	}
	_, err = s.revise(ctx, name, func(*Subscription) {}) // so that its runner looks
	return dropped, err
}

func (r parkedRecords) drop(ctx context.Context, name string, positions []string) (int, error) {
	return r.eachParked(ctx, name, positions, func(p Parked, version string) (bool, error) {
		return r.store.DeleteRecord(ctx, parkedKind(name), p.id(), version)
	})
}

// eachParked calls do for the parked messages at the positions, and returns how often it was
// successful.
func (r parkedRecords) eachParked(ctx context.Context, name string, positions []string, do func(p Parked, version string) (bool, error)) (int, error) {
	list, err := r.Parked(ctx, name)
	if err != nil {
		return 0, err
	}
	done, parked, asked := 0, map[string]bool{}, map[string]bool{}
	for _, p := range list {
		parked[FormatPosition(p.Position)] = true
	}
	for _, position := range positions {
		if asked[position] = true; !parked[position] {
			return 0, mistakef("subscription %s has no parked message at position %s: see the list of its parked messages", name, position)
		}
	}
	for _, p := range list {
		if len(asked) > 0 && !asked[FormatPosition(p.Position)] {
			continue
		}
		_, version, err := r.store.Record(ctx, parkedKind(name), p.id())
		if err != nil {
			return done, err
		}
		if version == "" {
			continue
		}
		changed, err := do(p, version)
		if err != nil {
			return done, err
		}
		if changed {
			done++
		}
	}
	return done, nil
}

// replaceParked saves another reason of a parked message, which is no longer tried.
func (r parkedRecords) replaceParked(ctx context.Context, p Parked, version string, cause Cause, text string) (bool, error) {
	p.Retry, p.Cause, p.Error, p.Time = false, cause, text, time.Now().UTC()
	return r.saveParked(ctx, p, version)
}
