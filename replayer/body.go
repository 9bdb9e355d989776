package replayer

import (
	"context"
	"fmt"

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

// findBodies completes events that are sent and left their body out from
// another event of the same message.
func (r *Replayer) findBodies(ctx context.Context, page []found) error {
	lacks := func(f found) bool { return f.leftOut == "" && f.event.BodyIn != schemas.BodyHere }
	messages := ofMessages(page, lacks)
	if messages == nil {
		return nil
	}
	missing := map[string][]*schemas.Event{}
	for i, f := range page {
		if lacks(f) {
			missing[f.event.Fingerprint] = append(missing[f.event.Fingerprint], &page[i].event)
		}
	}
	whole := query.Not{Node: query.Exists{Field: query.Pattern{"watership.body_in"}}}
	for other, err := range r.cfg.Store.Events(ctx, schemas.Selection{Query: both(messages, whole), Order: schemas.BySequence}) {
		if ends(err) {
			return fmt.Errorf("looking up bodies: %w", err)
		}
		if err != nil || other.BodyIn != schemas.BodyHere {
			continue
		}
		for _, e := range missing[other.Fingerprint] {
			e.Envelope.Body, e.BodyIn = other.Envelope.Body, schemas.BodyHere
		}
		delete(missing, other.Fingerprint)
		if len(missing) == 0 {
			return nil
		}
	}
	return nil
}
