package replayer

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/internal/history/bodies"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// NoBodyError reports a message whose body is not in the store.
type NoBodyError struct {
	EventID     string
	Fingerprint string
}

func (e *NoBodyError) Error() string {
	return fmt.Sprintf("event %s has no body of its own, no event of message %s in the store has it, and neither has the queue "+
		"of unstorable messages: it may be past its retention, or the exchange was not tapped", e.EventID, e.Fingerprint)
}

// findBodies loads the bodies that are not in the selected events: from other events
// of the same message, or from the queue of unstorable messages.
func (s *scan) findBodies(ctx context.Context, page []candidate) error {
	missing := bodies.NewMissing(s.r.cfg.Fingerprints)
	missing.Opener = s.r.cfg.Opener
	for i := range page {
		switch c := &page[i]; {
		case c.err != nil || c.leftOut != "":
		case c.event.BodyIn != schemas.BodyHere:
			missing.Add(ctx, &c.event)
			c.mayBeOriginal = c.mayBeOriginal || s.r.cfg.Opener != nil // its body may be an original
		default:
			_ = privacy.Open(ctx, s.r.cfg.Opener, &c.event) // it stays redacted, and is not sent
		}
	}
	if err := missing.FindStored(ctx, s.r.cfg.Store); err != nil || missing.Len() == 0 || s.lease == nil {
		return err
	}
	return missing.FindUnstorable(ctx, s.lease, s.r.cfg.Topology.Unstorable())
}

// countBodiless counts the messages of a page that would be sent and have no body in
// the store. A body in the queue of unstorable messages counts as available.
func (p *Plan) countBodiless(ctx context.Context, store Store, page []candidate) error {
	lacking := map[string]int{} // messages, by fingerprint
	for _, c := range page {
		if c.event.BodyIn == schemas.BodyInPublished && c.leftOut == "" {
			lacking[c.summary.Fingerprint]++
		}
	}
	unknown, err := bodies.CountUnknown(ctx, store, lacking)
	p.Bodiless += unknown
	return err
}
