package replayer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// Outcomes says what became of the messages that a job has sent, as far as their
// handlers have told. A message is handled when every queue has handled it that told
// of it before the job did, and one at least; it has failed when one queue says so,
// and one that is tried again counts as failed until it is handled.
type Outcomes struct {
	Handled     int
	Failed      int
	Problems    []string // a few different errors
	NotReported []string // queues that told of a message before, and not yet of this job's
}

const maxProblems = 5

// outcome is what is known of a message that a job has sent.
type outcome struct {
	replayed    schemas.Event            // Action is "" where that event is not found yet
	reported    map[string]schemas.Event // by the queue that tells
	notReported map[string]bool          // queues that told of it before, and not yet now
}

// Outcomes reads the events that the messages of a job have led to.
func (r *Replayer) Outcomes(ctx context.Context, job Job) (Outcomes, error) {
	outcomes, err := r.withRetries(connectTimeout).outcomesByEvent(ctx, job)
	if err != nil {
		return Outcomes{}, fmt.Errorf("looking what became of job %s: %w", job.ID, err)
	}
	return summarize(outcomes), nil
}

func (r *Replayer) outcomesByEvent(ctx context.Context, job Job) (map[string]*outcome, error) {
	if err := r.cfg.Store.Refresh(ctx); err != nil {
		return nil, err
	}
	outcomes := map[string]*outcome{} // by the event that was replayed
	ofJob := and(fieldIs("watership.replay.job", job.ID), withActions(append(reportActions(), schemas.Replayed)...))
	err := r.eachEvent(ctx, schemas.Selection{Query: ofJob, Order: schemas.BySequence, WithoutBody: true}, func(e schemas.Event) {
		o := outcomes[e.ReplayOf]
		if o == nil {
			o = &outcome{reported: map[string]schemas.Event{}, notReported: map[string]bool{}}
			outcomes[e.ReplayOf] = o
		}
		if recordedAction(e) == schemas.Replayed {
			o.replayed = e
			return
		}
		o.reported[e.Queue] = e
	})
	if err != nil || job.Target.Kind != ToOrigin {
		return outcomes, err
	}
	return outcomes, r.findNotReported(ctx, job, outcomes)
}

// reportActions are what the consumer of a queue tells of a message.
func reportActions() []schemas.Action {
	return []schemas.Action{schemas.Handled, schemas.RetryScheduled, schemas.Poisoned}
}

// findNotReported looks up which queues told of the messages before the job was planned:
// an exchange may lead to several, which are not equally fast.
func (r *Replayer) findNotReported(ctx context.Context, job Job, outcomes map[string]*outcome) error {
	byMessage := map[string][]*outcome{}
	var sent []candidate
	for _, o := range outcomes {
		byMessage[o.replayed.Fingerprint] = append(byMessage[o.replayed.Fingerprint], o)
		sent = append(sent, candidate{event: o.replayed})
	}
	for page := range slices.Chunk(sent, pageSize) {
		before := schemas.Selection{
			Query: and(withActions(reportActions()...), ofCandidates(page, func(candidate) bool { return true })),
			UpTo:  job.UpTo, Order: schemas.BySequence, WithoutBody: true,
		}
		err := r.eachEvent(ctx, before, func(e schemas.Event) {
			for _, o := range byMessage[e.Fingerprint] {
				if _, reported := o.reported[e.Queue]; !reported {
					o.notReported[e.Queue] = true
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func summarize(outcomes map[string]*outcome) Outcomes {
	var all Outcomes
	problems, notReported := map[string]bool{}, map[string]bool{}
	for _, o := range outcomes {
		problem, failed := o.problem()
		switch {
		case o.replayed.Action == "": // whoever hears of it counts it as sent, and not before
		case failed:
			all.Failed++
			if len(problems) < maxProblems {
				problems[problem] = true
			}
		case len(o.notReported) > 0 || len(o.reported) == 0:
			maps.Copy(notReported, o.notReported)
		default:
			all.Handled++
		}
	}
	all.Problems, all.NotReported = slices.Sorted(maps.Keys(problems)), slices.Sorted(maps.Keys(notReported))
	return all
}

func (o *outcome) problem() (text string, failed bool) {
	for _, queue := range slices.Sorted(maps.Keys(o.reported)) {
		if e := o.reported[queue]; recordedAction(e) != schemas.Handled {
			return e.Failure.Message, true
		}
	}
	return "", false
}
