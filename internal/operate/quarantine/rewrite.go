package quarantine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// Rewrite writes refused events again, with all fields for searches, in place of their
// quarantined documents. Documents that the store refuses again stay, with the new reason. So a
// rewrite can be repeated.
type Rewrite struct {
	Finder
	Format schemas.DocumentFormat

	// Results of Run.
	Written int
	Refused int
	Reasons []Refusal // of the first refused events
}

// Refusal is the reason why the store refused an event again.
type Refusal struct {
	EventID string `json:"event_id"`
	Reason  string `json:"reason"`
}

const (
	maxReasons  = 10
	batchEvents = 500
	batchBytes  = 5 << 20 // of bodies

	busyInterval = 500 * time.Millisecond // before documents that the store was too busy for are sent again
	busyTries    = 20
	storeTimeout = time.Minute // for which the store may be unavailable
)

// Run writes the refused events that match a query again, in the order in which they were
// recorded.
func (r *Rewrite) Run(ctx context.Context, node kql.Node) error {
	if err := r.Store.Refresh(ctx); err != nil {
		return err
	}
	var batch []rewriting
	size := 0
	for event, err := range storeread.Readable(r.Store.Events(ctx, eventstore.Selection{Query: Query(node), Order: eventstore.BySequence})) {
		if err != nil {
			return errors.Join(r.replaceAll(ctx, batch), err)
		}
		refused, ok := r.refused(event)
		if !ok {
			continue
		}
		batch = append(batch, rewriting{event.EventID, event.Failure.Message, refused})
		if size += len(event.Envelope.Body); len(batch) < batchEvents && size < batchBytes {
			continue
		}
		if err := r.replaceAll(ctx, batch); err != nil {
			return err
		}
		batch, size = nil, 0
	}
	if err := r.replaceAll(ctx, batch); err != nil {
		return err
	}
	return r.Store.Refresh(ctx) // so that a search finds the events at once
}

// rewriting is an event to write in place of a quarantined document.
type rewriting struct {
	id     string // of the quarantined document
	reason string // in the quarantined document
	event  schemas.Event
}

// replaceAll repeats requests for which the store was too busy.
func (r *Rewrite) replaceAll(ctx context.Context, pending []rewriting) error {
	for try := 0; len(pending) > 0; try++ {
		if try == busyTries {
			return fmt.Errorf("the store would not take %s", wording.Plural(len(pending), "event"))
		}
		if try > 0 {
			if err := backoff.Sleep(ctx, busyInterval); err != nil {
				return err
			}
		}
		var err error
		if pending, err = r.replace(ctx, pending); err != nil {
			return err
		}
	}
	return nil
}

// replace returns the events that the store was too busy for.
func (r *Rewrite) replace(ctx context.Context, pending []rewriting) (busy []rewriting, err error) {
	for len(pending) > 0 {
		results, err := r.send(ctx, pending)
		if err != nil {
			return nil, err
		}
		var again []rewriting
		for i, result := range results {
			if result.Status == eventstore.Busy {
				busy = append(busy, pending[i])
				continue
			}
			if changed, ok := r.settle(pending[i], result); ok {
				again = append(again, changed)
			}
		}
		pending = again
	}
	return busy, nil
}

// settle counts the result of an event. It returns another event for the quarantined
// document if there is one: with its own id, or with the new reason.
func (r *Rewrite) settle(was rewriting, result eventstore.Result) (rewriting, bool) {
	next := was
	switch {
	case was.event.Action == schemas.Quarantined: // counted before
		return next, false
	case result.Status == eventstore.Created:
		r.Written++
		return next, false
	case result.Status == eventstore.Conflict && was.event.IDFromContent(): // an equal message
		next.event = was.event.WithUniqueID()
		return next, true
	case result.Status == eventstore.Conflict:
		result.Reason = "another event has its id"
	}
	if r.Refused++; len(r.Reasons) < maxReasons {
		r.Reasons = append(r.Reasons, Refusal{was.id, result.Reason})
	}
	next.event = was.event.Quarantine(result.Reason)
	return next, result.Reason != was.reason
}

// send splits events that the store refuses as a whole.
func (r *Rewrite) send(ctx context.Context, pending []rewriting) ([]eventstore.Result, error) {
	events := make([]schemas.Event, len(pending))
	for i, p := range pending {
		events[i] = p.event
	}
	format, err := r.Format.For(ctx, events)
	if err != nil {
		return nil, err
	}
	list := make([]eventstore.Replacement, len(pending))
	for i, p := range pending {
		list[i] = eventstore.Replacement{Quarantined: p.id, Document: format.Document(p.event)}
	}
	results, err := storeread.Do(ctx, storeTimeout, func() ([]eventstore.Result, error) { return r.Store.Replace(ctx, list) })
	var failed *eventstore.Error
	if !errors.As(err, &failed) || failed.Kind != eventstore.RequestTooLarge && failed.Kind != eventstore.BadRequest {
		return results, err
	}
	if len(pending) == 1 {
		return []eventstore.Result{{Status: eventstore.Refused, Reason: failed.Reason}}, nil
	}
	half := len(pending) / 2
	first, err := r.send(ctx, pending[:half])
	if err != nil {
		return nil, err
	}
	second, err := r.send(ctx, pending[half:])
	return append(first, second...), err
}
