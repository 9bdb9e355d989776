package replayer

import (
	"context"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

// unprovenOrigins returns the origins to which messages of a page would be sent though only
// a consumer claims them: its login may lack the permission to publish there. The events
// up to the plan decide, so that a resumed job decides as before.
func (s *scan) unprovenOrigins(ctx context.Context, page []candidate) (map[history.Origin]bool, error) {
	origins := map[history.Origin]bool{}
	for _, c := range page {
		if c.err == nil && c.event.OriginClaimed && s.job.Target.usesOrigin(c.event) {
			origins[history.OriginOf(c.event)] = true
		}
	}
	return origins, history.RemoveProven(ctx, s.r.cfg.Store, origins, s.selection.UpTo)
}

// usesOrigin reports whether the message of an event is sent to its own exchange, or with
// its own routing key.
func (t Target) usesOrigin(e schemas.Event) bool {
	return t.queue(e) == "" && (t.Kind != ToExchange || t.Key == nil)
}
