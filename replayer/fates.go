package replayer

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// Fates says what became of the messages that a job has sent, as far as their
// handlers have told. A message that is tried again counts as failed until it is
// handled.
type Fates struct {
	Handled  int
	Failed   int
	Problems []string // a few different errors
}

const mostProblems = 5

// Fates reads the events that the messages of a job have led to.
func (r *Replayer) Fates(ctx context.Context, job Job) (Fates, error) {
	if err := r.cfg.Store.Refresh(ctx); err != nil {
		return Fates{}, fmt.Errorf("looking what became of job %s: %w", job.ID, err)
	}
	var either query.Or
	for _, action := range []schemas.Action{schemas.Handled, schemas.RetryScheduled, schemas.Poisoned} {
		either = append(either, is("event.action", string(action)))
	}
	selection := schemas.Selection{
		Query: both(is("watership.replay.job", job.ID), either), Order: schemas.BySequence, WithoutBody: true,
	}
	last := map[string]schemas.Event{} // of each message, by the event that was replayed and the queue
	for event, err := range r.cfg.Store.Events(ctx, selection) {
		if ends(err) {
			return Fates{}, fmt.Errorf("looking what became of job %s: %w", job.ID, err)
		}
		if err == nil {
			last[event.ReplayOf] = worse(last[event.ReplayOf], event)
		}
	}
	return fatesOf(last), nil
}

// worse: a message that several queues got has failed if it failed at one.
func worse(was, is schemas.Event) schemas.Event {
	if was.Action != "" && was.Action != schemas.Handled && was.Queue != is.Queue {
		return was
	}
	return is
}

func fatesOf(last map[string]schemas.Event) Fates {
	var fates Fates
	told := map[string]bool{}
	for _, event := range last {
		if event.Action == schemas.Handled {
			fates.Handled++
			continue
		}
		fates.Failed++
		if problem := event.Failure.Message; !told[problem] && len(told) < mostProblems {
			told[problem] = true
			fates.Problems = append(fates.Problems, problem)
		}
	}
	return fates
}
