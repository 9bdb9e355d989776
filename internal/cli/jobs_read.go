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

// listJobs yields as many jobs, the newest first; 0: all. An error that is no *eventstore.Error
// concerns one job that cannot be read, which does not count, and the sequence continues.
func listJobs(ctx context.Context, sys operation.Via, limit int) iter.Seq2[replayer.Job, error] {
	return func(yield func(replayer.Job, error) bool) {
		left := limit
		err := eachPage(func(cursor string) (string, error) {
			size := jobPage
			if limit > 0 {
				size = min(jobPage, left)
			}
			page, err := replays.ListReplays.Call(ctx, sys, replays.JobsInput{Limit: size, Cursor: cursor})
			for _, job := range page.Body.Jobs {
				if !yield(replayer.Job(job.Record), nil) {
					return "", errNoMore
				}
			}
			for _, why := range page.Body.Unreadable {
				if !yield(replayer.Job{}, errors.New(why)) {
					return "", errNoMore
				}
			}
			if left -= len(page.Body.Jobs); limit > 0 && left <= 0 {
				return "", err
			}
			return page.Body.Cursor, err
		})
		if err != nil && !errors.Is(err, errNoMore) {
			yield(replayer.Job{}, endOfList{err})
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
