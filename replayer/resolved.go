package replayer

import (
	"context"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

// resolvedReasons says why messages that failed are not sent again, by the events on a page,
// as it was when the job was planned, so that a resumed job decides as it did before.
// A job that sends to a place of its own is not about the failures, and neither is one
// that was told to send again.
func (r *Replayer) resolvedReasons(ctx context.Context, job Job, page []candidate) ([]string, error) {
	reasons := make([]string, len(page))
	if back := job.Target.Kind == ToOrigin || job.Target.Kind == ToFailedQueue; job.Again || !back {
		return reasons, nil
	}
	var failures []schemas.Fact
	var places []int
	for i, c := range page {
		switch {
		case c.err != nil:
		case isFailure(c.fact):
			failures, places = append(failures, c.fact), append(places, i)
		case c.fact.Action == schemas.Discarded:
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

func isFailure(e schemas.Fact) bool {
	return e.Action == schemas.Poisoned || e.Action == schemas.RetryScheduled
}
