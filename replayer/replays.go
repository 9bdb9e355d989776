package replayer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// replays finds out which messages other jobs have sent to the same target.
type replays struct {
	r       *Replayer
	job     Job
	targets map[string]Target // of other jobs, by id; the zero value of one that is not known

	any     bool      // there are `replayed` events of other jobs
	checked time.Time // when that was asked last
}

func (r *Replayer) newReplays(job Job) *replays {
	return &replays{r: r, job: job, targets: map[string]Target{}}
}

// replay is a `replayed` event of another job.
type replay struct {
	job      string
	sequence int64
}

// replayed is what is known of the messages on a page. The zero value knows of
// no replay.
type replayed struct {
	upTo int64
	of   map[key][]replay
	jobs map[string]bool // whose `replayed` events, or other traces, are of our target
}

func (x *replays) of(ctx context.Context, page []found) (replayed, error) {
	known := replayed{upTo: x.job.UpTo, of: map[key][]replay{}, jobs: map[string]bool{}}
	if x.job.Again {
		return known, nil
	}
	if err := x.traces(ctx, page, known); err != nil {
		return known, err
	}
	if err := x.check(ctx); err != nil || !x.any {
		return known, err
	}
	events, err := x.events(ctx, page)
	if err != nil {
		return known, err
	}
	if err := x.r.identify(ctx, x.job.Target, events); err != nil {
		return known, err
	}
	for _, e := range events {
		known.of[e.message] = append(known.of[e.message], replay{e.fact.Replay, e.fact.Sequence})
	}
	return known, nil
}

// traces finds the jobs that led to events on the page: an event that a replay has
// led to tells by itself that its message was sent. Of a job that is not known it
// tells nothing, since anybody can write its name into a header.
func (x *replays) traces(ctx context.Context, page []found, known replayed) error {
	for _, f := range page {
		job := f.fact.Replay
		if job == "" || job == x.job.ID {
			continue
		}
		target, err := x.target(ctx, job)
		if err != nil {
			return err
		}
		known.jobs[job] = target.Equal(x.job.Target)
	}
	return nil
}

// events are the `replayed` events, by other jobs with our target, of the messages on
// a page. A job that is not known counts as one of these, since leaving a message out
// is told and sending it twice cannot be undone.
func (x *replays) events(ctx context.Context, page []found) ([]found, error) {
	var events []found
	selection := schemas.Selection{Query: eitherHappened(schemas.Replayed)}
	for fact, err := range x.r.cfg.Store.Summaries(ctx, selection, withFingerprints(page)) {
		if err != nil {
			return nil, fmt.Errorf("looking up what was replayed before: %w", err)
		}
		if fact.Replay == x.job.ID {
			continue
		}
		target, err := x.target(ctx, fact.Replay)
		if err != nil {
			return nil, err
		}
		if target.Kind == "" || target.Equal(x.job.Target) {
			events = append(events, found{fact: fact})
		}
	}
	return events, nil
}

// withFingerprints finds events by the fingerprints of the messages on a page, also of
// what replays made of them.
func withFingerprints(page []found) schemas.Among {
	var all []string
	for _, f := range page {
		if f.err == nil {
			all = append(all, f.fact.Fingerprint, f.origin)
		}
	}
	slices.Sort(all)
	return schemas.Among{Field: "watership.fingerprint", Values: slices.Compact(all)}
}

// checkOften is about as long as it takes until an event can be found at all.
const checkOften = time.Second

// check asks, now and then, whether there is anything to look up.
func (x *replays) check(ctx context.Context) error {
	if now := x.r.now(); !x.any && now.Sub(x.checked) >= checkOften {
		count, err := x.r.cfg.Store.Count(ctx, schemas.Selection{Query: both(
			eitherHappened(schemas.Replayed),
			query.Not{Node: is("watership.replay.job", x.job.ID)},
		)})
		if err != nil {
			return fmt.Errorf("looking up what was replayed before: %w", err)
		}
		x.any, x.checked = count > 0, now
	}
	return nil
}

// target is that of another job.
func (x *replays) target(ctx context.Context, id string) (Target, error) {
	if target, known := x.targets[id]; known {
		return target, nil
	}
	job, err := x.r.Job(ctx, id)
	var none *NoJobError
	if err != nil && !errors.As(err, &none) {
		return Target{}, fmt.Errorf("looking up job %s, which replayed some of these: %w", id, err)
	}
	x.targets[id] = job.Target
	return job.Target, nil
}

// before says whether the message of an event was replayed when the job was planned.
func (k replayed) before(f *found) bool {
	return k.led(f) || k.any(f, func(r replay) bool { return r.sequence <= k.upTo })
}

// since says whether it was replayed after the job was planned.
func (k replayed) since(f *found) bool {
	return k.any(f, func(r replay) bool { return r.sequence > k.upTo })
}

// led says whether a replay to our target led to the event, and to no failure.
func (k replayed) led(f *found) bool { return k.jobs[f.fact.Replay] && !failed(f.fact) }

// any leaves out a failure that is newer: of the replayed message itself, or after
// the replay.
func (k replayed) any(f *found, when func(replay) bool) bool {
	return slices.ContainsFunc(k.of[f.message], func(r replay) bool {
		newer := failed(f.fact) && (r.job == f.fact.Replay || r.sequence < f.fact.Sequence)
		return when(r) && !newer
	})
}

// sentBy are the messages that a job has sent, as far as its `replayed` events
// are in the store: all of them, or those of the last window where the cursor
// tells of the others.
func (r *Replayer) sentBy(ctx context.Context, job Job) (*set, error) {
	if err := r.cfg.Store.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("looking up what was sent before: %w", err)
	}
	selection := schemas.Selection{
		Query: both(is("event.action", string(schemas.Replayed)), is("watership.replay.job", job.ID)),
		Order: schemas.NewestFirst, Limit: Window, WithoutBody: true,
	}
	if job.Uncertain {
		selection.Order, selection.Limit = schemas.BySequence, 0
	}
	sent, page := &set{}, make([]found, 0, pageSize)
	add := func() error {
		err := r.identify(ctx, job.Target, page)
		for _, f := range page {
			sent.add(f.message)
		}
		page = page[:0]
		return err
	}
	for event, err := range r.cfg.Store.Events(ctx, selection) {
		if ends(err) {
			return nil, fmt.Errorf("looking up what was sent before: %w", err)
		}
		if err != nil {
			continue
		}
		if page = append(page, found{event: event, fact: event.Fact()}); len(page) < pageSize {
			continue
		}
		if err := add(); err != nil {
			return nil, err
		}
	}
	return sent, add()
}
