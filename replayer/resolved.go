package replayer

import (
	"context"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

// resolvedReasons returns, for each candidate on a page, why its failure is resolved;
// "" if it is not. It considers the events up to the plan, so that a resumed job
// decides as before. Failures do not matter to a job with another target, or with
// Again.
func (r *Replayer) resolvedReasons(ctx context.Context, job Job, page []candidate) ([]string, error) {
	reasons := make([]string, len(page))
	if back := job.Target.Kind == ToOrigin || job.Target.Kind == ToFailedQueue; job.Again || !back {
		return reasons, nil
	}
	var failures []eventstore.EventSummary
	var places []int
	for i, c := range page {
		switch {
		case c.err != nil:
		case isFailure(c.summary):
			failures, places = append(failures, c.summary), append(places, i)
		case c.summary.Action == schemas.Discarded:
			reasons[i] = discardedSince
		}
	}
	if len(failures) == 0 {
		return reasons, nil
	}
	outcomes, err := history.Outcomes(ctx, r.cfg.Store, failures, job.UpTo, nil)
	if err != nil {
		return nil, err
	}
	for n, i := range places {
		reasons[i] = reasonFor(outcomes[n])
	}
	return reasons, nil
}

func reasonFor(o history.Outcome) string {
	switch o {
	case history.Handled:
		return handledSince
	case history.Discarded:
		return discardedSince
	case history.Waiting:
		return retryScheduled
	}
	return ""
}

func isFailure(e eventstore.EventSummary) bool {
	return e.Action == schemas.Poisoned || e.Action == schemas.RetryScheduled
}
