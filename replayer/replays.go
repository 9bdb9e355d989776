package replayer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// replays finds out which messages other jobs have sent to the same target.
type replays struct {
	r       *Replayer
	job     Job
	targets map[string]bool // of other jobs, by id: whether the target is ours

	any     bool      // there are `replayed` events of other jobs
	checked time.Time // when that was asked last
}

func (r *Replayer) newReplays(job Job) *replays {
	return &replays{r: r, job: job, targets: map[string]bool{}}
}

// replay is a `replayed` event of another job.
type replay struct {
	job      string
	sequence int64
}

// replayed is what is known of the messages on a page. The zero value knows of
// no replay.
type replayed struct {
	target Target
	upTo   int64
	of     map[key][]replay
}

func (x *replays) of(ctx context.Context, page []found) (replayed, error) {
	known := replayed{target: x.job.Target, upTo: x.job.UpTo}
	if x.job.Again {
		return known, nil
	}
	if err := x.check(ctx); err != nil || !x.any {
		return known, err
	}
	messages := ofMessages(page, func(found) bool { return true })
	if messages == nil {
		return known, nil
	}
	known.of = map[key][]replay{}
	selection := schemas.Selection{
		Query: both(is("event.action", string(schemas.Replayed)), messages), Order: schemas.BySequence, WithoutBody: true,
	}
	for event, err := range x.r.cfg.Store.Events(ctx, selection) {
		if ends(err) {
			return replayed{}, fmt.Errorf("looking up what was replayed before: %w", err)
		}
		if err != nil || event.Replay == x.job.ID {
			continue
		}
		same, err := x.sameTarget(ctx, event.Replay)
		if err != nil {
			return replayed{}, err
		}
		if same {
			k := x.job.Target.identity(event)
			known.of[k] = append(known.of[k], replay{event.Replay, event.Sequence})
		}
	}
	return known, nil
}

// checkOften is about as long as it takes until an event can be found at all.
const checkOften = time.Second

// check asks, now and then, whether there is anything to look up.
func (x *replays) check(ctx context.Context) error {
	if now := x.r.now(); !x.any && now.Sub(x.checked) >= checkOften {
		count, err := x.r.cfg.Store.Count(ctx, schemas.Selection{Query: both(
			is("event.action", string(schemas.Replayed)),
			query.Not{Node: is("watership.replay.job", x.job.ID)},
		)})
		if err != nil {
			return fmt.Errorf("looking up what was replayed before: %w", err)
		}
		x.any, x.checked = count > 0, now
	}
	return nil
}

// sameTarget: a job that is not known counts as one that sent to our target,
// since leaving a message out is told and sending it twice cannot be undone.
func (x *replays) sameTarget(ctx context.Context, id string) (bool, error) {
	if same, known := x.targets[id]; known {
		return same, nil
	}
	job, err := x.r.Job(ctx, id)
	var none *NoJobError
	if err != nil && !errors.As(err, &none) {
		return false, fmt.Errorf("looking up job %s, which replayed some of these: %w", id, err)
	}
	x.targets[id] = none != nil || job.Target.Equal(x.job.Target)
	return x.targets[id], nil
}

// before says whether the message of an event was replayed when the job was
// planned, but for a failure of the replayed message itself: that is a new one.
func (k replayed) before(e schemas.Event) bool {
	return k.any(e, func(r replay) bool { return r.sequence <= k.upTo })
}

// since says whether it was replayed after the job was planned.
func (k replayed) since(e schemas.Event) bool {
	return k.any(e, func(r replay) bool { return r.sequence > k.upTo })
}

func (k replayed) any(e schemas.Event, when func(replay) bool) bool {
	if len(k.of) == 0 {
		return false
	}
	copied := facts(e) == schemas.Published && e.Replay != "" // what a job sent is no failure
	for _, r := range k.of[k.target.identity(e)] {
		if when(r) && (copied || r.job != e.Replay && r.sequence > e.Sequence) {
			return true
		}
	}
	return false
}

// sentBy are the messages that a job has sent, as far as its `replayed` events
// are in the store: all of them, or those of the last window where the cursor
// tells of the others.
func (r *Replayer) sentBy(ctx context.Context, job Job) (*set, error) {
	if err := r.cfg.Store.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("looking up what was sent before: %w", err)
	}
	sent := &set{}
	selection := schemas.Selection{
		Query: both(is("event.action", string(schemas.Replayed)), is("watership.replay.job", job.ID)),
		Order: schemas.NewestFirst, Limit: Window, WithoutBody: true,
	}
	if job.Uncertain {
		selection.Limit = 0
	}
	err := r.each(ctx, selection, func(e schemas.Event) { sent.add(job.Target.identity(e)) })
	if err != nil {
		return nil, fmt.Errorf("looking up what was sent before: %w", err)
	}
	return sent, nil
}
