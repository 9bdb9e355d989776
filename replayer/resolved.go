package replayer

import (
	"context"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

// leaveOutResolved leaves out the failures of a page that were handled or discarded since the job
// was planned: a job may be paused for days, and an operator who discards a message wants it
// sent no more.
func (s *scan) leaveOutResolved(ctx context.Context, page []candidate) error {
	reasons, err := s.r.resolvedReasons(ctx, s.job, page, 0)
	if err != nil {
		return err
	}
	for i, reason := range reasons {
		if c := &page[i]; c.leftOut == "" && (reason == handledSince || reason == discardedSince) {
			c.leftOut = resolvedSince
		}
	}
	return nil
}

// resolvedReasons returns, for each candidate on a page that is not left out, why its failure is
// resolved; "" if it is not. It considers the events up to a sequence (0: all). Failures do not
// matter to a job with another target, or with Again.
func (r *Replayer) resolvedReasons(ctx context.Context, job Job, page []candidate, upTo int64) ([]string, error) {
	reasons := make([]string, len(page))
	if back := job.Target.Kind == ToOrigin || job.Target.Kind == ToFailedQueue; job.Again || !back {
		return reasons, nil
	}
	var failures []eventstore.EventSummary
	var places []int
	for i, c := range page {
		switch {
		case c.err != nil || c.leftOut != "":
		case isFailure(c.summary):
			failures, places = append(failures, c.summary), append(places, i)
		case c.summary.Action == schemas.Discarded:
			reasons[i] = discardedSince
		}
	}
	if len(failures) == 0 {
		return reasons, nil
	}
	outcomes, err := history.Outcomes(ctx, r.cfg.Store, failures, upTo, nil)
	if err != nil {
		return nil, err
	}
	for n, i := range places {
		reasons[i] = reasonFor(outcomes[n])
	}
	return reasons, nil
}

func reasonFor(o history.Outcome) string {
	return map[history.Outcome]string{history.Handled: handledSince, history.Discarded: discardedSince, history.Waiting: retryScheduled}[o]
}

func isFailure(e eventstore.EventSummary) bool {
	return e.Action == schemas.Poisoned || e.Action == schemas.RetryScheduled
}
