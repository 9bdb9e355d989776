package cli

import (
	"context"
	"errors"
	"iter"

	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/replayer"
)

// jobPage is the number of jobs of a page.
const jobPage = 100

// errNoMore ends the pages of a list whose reader has enough.
var errNoMore = errors.New("no more is wanted")

// listJobs yields jobs, the newest first. An error that is no *eventstore.Error concerns one job,
// and the sequence continues.
func listJobs(ctx context.Context, sys operation.Via) iter.Seq2[replayer.Job, error] {
	return func(yield func(replayer.Job, error) bool) {
		err := eachPage(func(cursor string) (string, error) {
			page, err := replays.ListReplays.Call(ctx, sys, replays.JobsInput{Limit: jobPage, Cursor: cursor})
			for _, why := range page.Body.Unreadable {
				if !yield(replayer.Job{}, errors.New(why)) {
					return "", errNoMore
				}
			}
			for _, job := range page.Body.Jobs {
				if !yield(replayer.Job(job.Record), nil) {
					return "", errNoMore
				}
			}
			return page.Body.Cursor, err
		})
		if err != nil && !errors.Is(err, errNoMore) {
			yield(replayer.Job{}, err)
		}
	}
}

// readJob reads a job.
func readJob(ctx context.Context, sys operation.Via, id string) (replayer.Job, error) {
	found, err := replays.GetReplay.Call(ctx, sys, replays.JobInput{ID: id})
	return replayer.Job(found.Body.Record), err
}

// cancelJob cancels a job.
func cancelJob(ctx context.Context, sys operation.Via, id, reason string) (replayer.Job, error) {
	in := replays.CancelInput{ID: id}
	operation.Fill(&in.Body).Reason = reason
	cancelled, err := replays.CancelReplay.Call(ctx, sys, in)
	return replayer.Job(cancelled.Body.Record), err
}
