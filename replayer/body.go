package replayer

import (
	"context"
	"fmt"
	"iter"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// NoBodyError says that the body of a message is nowhere in the store.
type NoBodyError struct {
	EventID     string
	Fingerprint string
}

func (e *NoBodyError) Error() string {
	return fmt.Sprintf("event %s has no body of its own and no event of message %s in the store has it: "+
		"it may be past its retention, or the exchange was not tapped", e.EventID, e.Fingerprint)
}

const pageSize = 500 // events whose bodies are looked up at once

// chosen yields the events whose messages are sent, each with its body.
func (r *Replayer) chosen(ctx context.Context, plan Plan) iter.Seq2[schemas.Event, error] {
	choice := newChoice(plan.Job.Target)
	choice.published = plan.published
	return func(yield func(schemas.Event, error) bool) {
		var page []schemas.Event
		for event, err := range r.cfg.Store.Events(ctx, plan.Job.selection(false)) {
			if err != nil {
				yield(schemas.Event{}, fmt.Errorf("reading the messages to replay: %w", err))
				return
			}
			if choice.take(event) != "" {
				continue
			}
			if page = append(page, event); len(page) < pageSize {
				continue
			}
			if !r.yieldWhole(ctx, page, yield) {
				return
			}
			page = page[:0]
		}
		r.yieldWhole(ctx, page, yield)
	}
}

func (r *Replayer) yieldWhole(ctx context.Context, page []schemas.Event, yield func(schemas.Event, error) bool) bool {
	if err := r.findBodies(ctx, page); err != nil {
		yield(schemas.Event{}, err)
		return false
	}
	for _, event := range page {
		if !yield(event, nil) {
			return false
		}
	}
	return true
}

// findBodies completes events that left their body out from another event of
// the same message.
func (r *Replayer) findBodies(ctx context.Context, page []schemas.Event) error {
	missing := map[string][]*schemas.Event{}
	var either query.Or
	for i := range page {
		e := &page[i]
		if e.BodyIn == schemas.BodyHere {
			continue
		}
		if missing[e.Fingerprint] == nil {
			either = append(either, query.Is{
				Field: query.Pattern{"watership.fingerprint"},
				Value: query.Value{Pattern: query.Pattern{e.Fingerprint}, Quoted: true},
			})
		}
		missing[e.Fingerprint] = append(missing[e.Fingerprint], e)
	}
	if len(either) == 0 {
		return nil
	}
	for found, err := range r.cfg.Store.Events(ctx, schemas.Selection{Query: either, Order: schemas.BySequence}) {
		if err != nil {
			return fmt.Errorf("looking up bodies: %w", err)
		}
		if found.BodyIn != schemas.BodyHere {
			continue
		}
		for _, e := range missing[found.Fingerprint] {
			e.Envelope.Body, e.BodyIn = found.Envelope.Body, schemas.BodyHere
		}
		delete(missing, found.Fingerprint)
		if len(missing) == 0 {
			return nil
		}
	}
	return nil
}
