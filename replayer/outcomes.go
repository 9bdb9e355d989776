package replayer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
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
}

const maxProblems = 5

// outcome is the outcome of one replayed message.
type outcome struct {
	replayed    schemas.Event            // Action is "" if the event is not in the store yet
	reported    map[string]schemas.Event // by queue
	notReported map[string]bool          // queues that reported before, and not yet about the replay
}

// Outcomes reads the events of a job's messages.
func (r *Replayer) Outcomes(ctx context.Context, job Job) (Outcomes, error) {
	outcomes, err := r.withRetries(connectTimeout).outcomesByEvent(ctx, job)
	if err != nil {
		return Outcomes{}, fmt.Errorf("looking up the outcomes of job %s: %w", job.ID, err)
	}
	return summarize(outcomes), nil
}

func (r *Replayer) outcomesByEvent(ctx context.Context, job Job) (map[string]*outcome, error) {
	if err := r.cfg.Store.Refresh(ctx); err != nil {
		return nil, err
	}
	outcomes := map[string]*outcome{} // by the id of the replayed event
	ofJob := and(fieldIs("watership.replay.job", job.ID), withActions(append(reportActions(), schemas.Replayed)...))
	err := r.eachEvent(ctx, eventstore.Selection{Query: ofJob, Order: eventstore.BySequence, WithoutBody: true}, func(e schemas.Event) {
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

// reportActions are the actions that the consumer of a queue reports.
func reportActions() []schemas.Action {
	return []schemas.Action{schemas.Handled, schemas.RetryScheduled, schemas.Poisoned}
}

// findNotReported finds the queues that reported about the messages before the job was
// planned: an exchange may route to several queues with consumers of different speed.
func (r *Replayer) findNotReported(ctx context.Context, job Job, outcomes map[string]*outcome) error {
	byMessage := map[string][]*outcome{}
	var sent []candidate
	for _, o := range outcomes {
		byMessage[o.replayed.Fingerprint] = append(byMessage[o.replayed.Fingerprint], o)
		sent = append(sent, candidate{event: o.replayed})
	}
	for page := range slices.Chunk(sent, pageSize) {
		before := eventstore.Selection{
			Query: and(withActions(reportActions()...), ofCandidates(page, func(candidate) bool { return true })),
			UpTo:  job.UpTo, Order: eventstore.BySequence, WithoutBody: true,
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
		case o.replayed.Action == "": // not counted before its `replayed` event is stored
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
