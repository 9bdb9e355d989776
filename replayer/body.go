package replayer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// NoBodyError says that the body of a message is nowhere in the store.
type NoBodyError struct {
	EventID     string
	Fingerprint string
}

func (e *NoBodyError) Error() string {
	return fmt.Sprintf("event %s has no body of its own, no event of message %s in the store has it, and neither has the queue "+
		"of unstorable messages: it may be past its retention, or the exchange was not tapped", e.EventID, e.Fingerprint)
}

// findBodies completes events that are sent and have their body elsewhere: in
// another event of the same message, or in the queue of what was too large for
// the store.
func (d *reading) findBodies(ctx context.Context, page []found) error {
	bodies := missing{}
	for i, f := range page {
		if lacksBody(f) {
			bodies[f.event.Fingerprint] = append(bodies[f.event.Fingerprint], &page[i].event)
		}
	}
	if len(bodies) == 0 {
		return nil
	}
	if err := d.r.storedBodies(ctx, ofMessages(page, lacksBody), bodies); err != nil || len(bodies) == 0 {
		return err
	}
	return d.line.fetch(ctx, d.r.cfg.Topology.Unstorable(), bodies)
}

// countBodiless counts the messages of a page that would be sent and whose body is
// nowhere in the store. Those in the queue of unstorable messages count as there.
func (p *Plan) countBodiless(ctx context.Context, store Store, page []found) error {
	lacking := map[string]int{} // messages, by fingerprint
	for _, f := range page {
		if f.event.BodyIn == schemas.BodyInPublished && f.leftOut == "" {
			lacking[f.fact.Fingerprint]++
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	elsewhere := query.Not{Node: is("watership.body_in", string(schemas.BodyInPublished))}
	of := schemas.Among{Field: "watership.fingerprint", Values: slices.Collect(maps.Keys(lacking))}
	for fact, err := range store.Summaries(ctx, schemas.Selection{Query: elsewhere}, of) {
		if err != nil {
			return fmt.Errorf("looking up bodies: %w", err)
		}
		if delete(lacking, fact.Fingerprint); len(lacking) == 0 {
			break
		}
	}
	for _, messages := range lacking {
		p.Bodiless += messages
	}
	return nil
}

func lacksBody(f found) bool { return f.leftOut == "" && f.event.BodyIn != schemas.BodyHere }

func (r *Replayer) storedBodies(ctx context.Context, messages query.Node, bodies missing) error {
	whole := query.Not{Node: query.Exists{Field: query.Pattern{"watership.body_in"}}}
	for other, err := range r.cfg.Store.Events(ctx, schemas.Selection{Query: both(messages, whole), Order: schemas.BySequence}) {
		if ends(err) {
			return fmt.Errorf("looking up bodies: %w", err)
		}
		if err != nil || other.BodyIn != schemas.BodyHere {
			continue
		}
		if bodies.found(other.Fingerprint, other.Envelope.Body); len(bodies) == 0 {
			return nil
		}
	}
	return nil
}
