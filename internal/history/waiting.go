package history

import (
	"context"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// waitingSince is how long ago the failure of a message may be that waits for its next attempt.
const waitingSince = 24 * time.Hour

// Unhandled reports whether a message of a key, which is the value of a field, failed at a queue,
// and was neither handled nor discarded since: it was given up, or has waited for its next attempt
// for at most a day. The message with a fingerprint is left out.
func (f Failures) Unhandled(ctx context.Context, queue string, key kql.Is, fingerprint string) (bool, error) {
	ofKey := kql.And{kql.FieldIs("watership.queue", queue), key}
	for failure, err := range f.Open(ctx, ofKey) {
		if err != nil || failure.Fingerprint != fingerprint {
			return err == nil, err
		}
	}
	last := map[string]eventstore.EventSummary{}
	steps := kql.And{ofKey, withActions(schemas.RetryScheduled, schemas.Handled, schemas.Poisoned)}
	for step, err := range f.Store.Summaries(ctx, eventstore.Selection{Query: steps}) {
		if err != nil {
			return false, err
		}
		if step.Fingerprint != fingerprint && step.Sequence >= last[step.Fingerprint].Sequence {
			last[step.Fingerprint] = step
		}
	}
	for _, step := range last {
		if step.Action == schemas.RetryScheduled && time.Since(step.Time) < waitingSince {
			return true, nil
		}
	}
	return false, nil
}
