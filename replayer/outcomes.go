package replayer

import (
	"context"

	"github.com/watershipmq/watership/internal/history"
)

// Outcomes are the outcomes of a job's messages, by the events of their consumers. A
// message is handled when at least one queue has handled it, including every queue
// that reported about it before the job; it has failed when one queue reports a
// failure or a retry after which it is not handled yet.
type Outcomes struct {
	Handled     int
	Failed      int
	Problems    []string // a few distinct errors
	NotReported []string // queues that reported about a message before, and not yet about its replay
	Pending     []string // event ids of the originals of a few messages about which no queue, or not each of these, has reported
}

// Outcomes reads the events of a job's messages.
func (r *Replayer) Outcomes(ctx context.Context, job Job) (Outcomes, error) {
	found, err := history.OutcomesOfJob(ctx, r.withRetries(connectTimeout).cfg.Store,
		history.Job{ID: job.ID, UpTo: job.UpTo, ToOrigin: job.Target.Kind == ToOrigin})
	return Outcomes{found.Handled, found.Failed, found.Problems, found.NotReported, found.Pending}, err
}
