package replayer

import (
	"context"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

// resolved says why a failure was resolved when the job was planned, and why it is now; "": it was
// not, or is not.
type resolved struct{ planned, now Reason }

// sincePlan reports whether the failure was handled or discarded since the job was planned.
func (r resolved) sincePlan() bool { return r.now == HandledSince || r.now == DiscardedSince }

// resolvedReasons returns why the failure of each candidate on a page is resolved. Failures do
// not matter to a job with another target, or with Again.
func resolvedReasons(ctx context.Context, store Store, job Job, page []candidate) ([]resolved, error) {
	reasons := make([]resolved, len(page))
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
			reasons[i].planned = DiscardedSince
		}
	}
	if len(failures) == 0 {
		return reasons, nil
	}
	planned, now, err := history.OutcomesSince(ctx, store, failures, job.UpTo)
	if err != nil {
		return nil, err
	}
	for n, i := range places {
		reasons[i] = resolved{reasonFor(planned[n]), reasonFor(now[n])}
	}
	return reasons, nil
}

func reasonFor(o history.Outcome) Reason {
	switch o {
	case history.Handled:
		return HandledSince
	case history.Discarded:
		return DiscardedSince
	case history.Waiting:
		return RetryScheduled
	}
	return ""
}

func isFailure(e eventstore.EventSummary) bool {
	return e.Action == schemas.Poisoned || e.Action == schemas.RetryScheduled
}
