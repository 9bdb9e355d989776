package replayer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// Fates says what became of the messages that a job has sent, as far as their
// handlers have told. A message is handled when every queue has handled it that told
// of it before the job did, and one at least; it has failed when one queue says so,
// and one that is tried again counts as failed until it is handled.
type Fates struct {
	Handled  int
	Failed   int
	Problems []string // a few different errors
	Silent   []string // queues that told of a message before, and not yet of this job's
}

const mostProblems = 5

// fate is what is known of a message that a job has sent.
type fate struct {
	replayed schemas.Event            // Action is "" where that event is not found yet
	last     map[string]schemas.Event // by the queue that tells
	silent   map[string]bool          // queues that told of it before, and not yet now
}

// Fates reads the events that the messages of a job have led to.
func (r *Replayer) Fates(ctx context.Context, job Job) (Fates, error) {
	fates, err := r.withPatience(patience).fates(ctx, job)
	if err != nil {
		return Fates{}, fmt.Errorf("looking what became of job %s: %w", job.ID, err)
	}
	return sum(fates), nil
}

func (r *Replayer) fates(ctx context.Context, job Job) (map[string]*fate, error) {
	if err := r.cfg.Store.Refresh(ctx); err != nil {
		return nil, err
	}
	fates := map[string]*fate{} // by the event that was replayed
	ofJob := both(is("watership.replay.job", job.ID), eitherHappened(append(reports(), schemas.Replayed)...))
	err := r.each(ctx, schemas.Selection{Query: ofJob, Order: schemas.BySequence, WithoutBody: true}, func(e schemas.Event) {
		f := fates[e.ReplayOf]
		if f == nil {
			f = &fate{last: map[string]schemas.Event{}, silent: map[string]bool{}}
			fates[e.ReplayOf] = f
		}
		if facts(e) == schemas.Replayed {
			f.replayed = e
			return
		}
		f.last[e.Queue] = e
	})
	if err != nil || job.Target.Kind != ToOrigin {
		return fates, err
	}
	return fates, r.findSilent(ctx, job, fates)
}

// reports are what the consumer of a queue tells of a message.
func reports() []schemas.Action {
	return []schemas.Action{schemas.Handled, schemas.RetryScheduled, schemas.Poisoned}
}

// findSilent looks up which queues told of the messages before the job was planned:
// an exchange may lead to several, which are not equally fast.
func (r *Replayer) findSilent(ctx context.Context, job Job, fates map[string]*fate) error {
	byMessage := map[string][]*fate{}
	var sent []found
	for _, f := range fates {
		byMessage[f.replayed.Fingerprint] = append(byMessage[f.replayed.Fingerprint], f)
		sent = append(sent, found{event: f.replayed})
	}
	for page := range slices.Chunk(sent, pageSize) {
		before := schemas.Selection{
			Query: both(eitherHappened(reports()...), ofMessages(page, func(found) bool { return true })),
			UpTo:  job.UpTo, Order: schemas.BySequence, WithoutBody: true,
		}
		err := r.each(ctx, before, func(e schemas.Event) {
			for _, f := range byMessage[e.Fingerprint] {
				if _, told := f.last[e.Queue]; !told {
					f.silent[e.Queue] = true
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func sum(fates map[string]*fate) Fates {
	var all Fates
	problems, silent := map[string]bool{}, map[string]bool{}
	for _, f := range fates {
		problem, failed := f.problem()
		switch {
		case f.replayed.Action == "": // whoever hears of it counts it as sent, and not before
		case failed:
			all.Failed++
			if len(problems) < mostProblems {
				problems[problem] = true
			}
		case len(f.silent) > 0 || len(f.last) == 0:
			maps.Copy(silent, f.silent)
		default:
			all.Handled++
		}
	}
	all.Problems, all.Silent = slices.Sorted(maps.Keys(problems)), slices.Sorted(maps.Keys(silent))
	return all
}

func (f *fate) problem() (text string, failed bool) {
	for _, queue := range slices.Sorted(maps.Keys(f.last)) {
		if e := f.last[queue]; facts(e) != schemas.Handled {
			return e.Failure.Message, true
		}
	}
	return "", false
}
