package replayer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// replayLookup finds the messages that other jobs have sent to the same target.
type replayLookup struct {
	r       *Replayer
	job     Job
	targets map[string]Target // of other jobs, by id; zero if the job is not in the store

	hasReplays bool      // the store has `replayed` events of other jobs
	lastCheck  time.Time // time of the last query for them
}

// replay is a `replayed` event of another job.
type replay struct {
	job      string
	sequence int64
}

// knownReplays are the replays of the messages on a page.
type knownReplays struct {
	plannedUpTo int64
	byMessage   map[storeread.Key][]replay
	jobs        map[string]bool // with events on the page; true if the job has the same target
}

func (l *replayLookup) find(ctx context.Context, page []candidate) (knownReplays, error) {
	known := knownReplays{plannedUpTo: l.job.UpTo, byMessage: map[storeread.Key][]replay{}, jobs: map[string]bool{}}
	if l.job.Again {
		return known, nil
	}
	if err := l.findSenders(ctx, page, known); err != nil {
		return known, err
	}
	if err := l.refreshHasReplays(ctx); err != nil || !l.hasReplays {
		return known, err
	}
	events, err := l.events(ctx, page)
	if err != nil {
		return known, err
	}
	if err := identify(ctx, l.r.cfg.Store, l.job.Target, events); err != nil {
		return known, err
	}
	for _, e := range events {
		known.byMessage[e.messageKey] = append(known.byMessage[e.messageKey], replay{e.summary.Replay, e.summary.Sequence})
	}
	return known, nil
}

// findSenders finds the jobs whose replays caused events on the page: such an event
// proves that its message was sent. A job that is not in the store proves nothing,
// since any publisher can set the header that names it.
func (l *replayLookup) findSenders(ctx context.Context, page []candidate, known knownReplays) error {
	for _, c := range page {
		job := c.summary.Replay
		if job == "" || job == l.job.ID {
			continue
		}
		target, err := l.target(ctx, job)
		if err != nil {
			return err
		}
		known.jobs[job] = target.Equal(l.job.Target)
	}
	return nil
}

// events returns the `replayed` events of the messages on a page by other jobs with
// the same target. A job that is not in the store counts as one of them: a message
// that is left out is reported and can be sent later, a message sent twice cannot be
// recalled.
func (l *replayLookup) events(ctx context.Context, page []candidate) ([]candidate, error) {
	var events []candidate
	selection := eventstore.Selection{Query: withActions(schemas.Replayed)}
	for summary, err := range l.r.cfg.Store.Summaries(ctx, selection, withFingerprints(page)) {
		if err != nil {
			return nil, fmt.Errorf("looking up earlier replays: %w", err)
		}
		if summary.Replay == l.job.ID {
			continue
		}
		target, err := l.target(ctx, summary.Replay)
		if err != nil {
			return nil, err
		}
		if target.Kind == "" || target.Equal(l.job.Target) {
			events = append(events, candidate{summary: summary})
		}
	}
	return events, nil
}

// withFingerprints filters events by the fingerprints of the messages on a page and of
// their original messages.
func withFingerprints(page []candidate) eventstore.FieldIn {
	var all []string
	for _, c := range page {
		if c.err == nil {
			all = append(all, c.summary.Fingerprint, c.originFingerprint)
		}
	}
	slices.Sort(all)
	return eventstore.FieldIn{Field: "watership.fingerprint", Values: slices.Compact(all)}
}

// checkInterval is about the delay until a stored event is visible.
const checkInterval = time.Second

// refreshHasReplays queries the store at most every checkInterval for `replayed` events of
// other jobs.
func (l *replayLookup) refreshHasReplays(ctx context.Context) error {
	if now := l.r.now(); !l.hasReplays && now.Sub(l.lastCheck) >= checkInterval {
		count, err := l.r.cfg.Store.Count(ctx, eventstore.Selection{Query: and(
			withActions(schemas.Replayed),
			kql.Not{Node: kql.FieldIs("watership.replay.job", l.job.ID)},
		)})
		if err != nil {
			return fmt.Errorf("looking up earlier replays: %w", err)
		}
		l.hasReplays, l.lastCheck = count > 0, now
	}
	return nil
}

// target returns the target of another job.
func (l *replayLookup) target(ctx context.Context, id string) (Target, error) {
	if target, known := l.targets[id]; known {
		return target, nil
	}
	job, err := l.r.Job(ctx, id)
	var none *NoJobError
	if err != nil && !errors.As(err, &none) {
		return Target{}, fmt.Errorf("looking up job %s, which replayed some of these: %w", id, err)
	}
	l.targets[id] = job.Target
	return job.Target, nil
}

// replayedBeforePlan reports whether the message was replayed before the job was planned.
func (k knownReplays) replayedBeforePlan(c *candidate) bool {
	return k.resultsFromReplay(c) || k.anyReplay(c, func(r replay) bool { return r.sequence <= k.plannedUpTo })
}

// ReplayedSincePlan reports whether the message was replayed after the job was planned.
func (k knownReplays) replayedSincePlan(c *candidate) bool {
	return k.anyReplay(c, func(r replay) bool { return r.sequence > k.plannedUpTo })
}

// resultsFromReplay reports whether a replay to the same target caused the event, and
// the event is no failure.
func (k knownReplays) resultsFromReplay(c *candidate) bool {
	return k.jobs[c.summary.Replay] && !isFailure(c.summary)
}

// anyReplay reports whether a replay satisfies the condition, except for failures that
// are newer than the replay or were caused by it.
func (k knownReplays) anyReplay(c *candidate, matches func(replay) bool) bool {
	return slices.ContainsFunc(k.byMessage[c.messageKey], func(r replay) bool {
		newer := isFailure(c.summary) && (r.job == c.summary.Replay || r.sequence < c.summary.Sequence)
		return matches(r) && !newer
	})
}

// sentBy returns the messages that a job has sent, by its `replayed` events in the
// store: the last window, or all if the cursor is invalid.
func sentBy(ctx context.Context, store Store, job Job) (*storeread.Set, error) {
	if err := store.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("looking up the sent messages: %w", err)
	}
	selection := eventstore.Selection{
		Query: and(kql.FieldIs("event.action", string(schemas.Replayed)), kql.FieldIs("watership.replay.job", job.ID)),
		Order: eventstore.NewestFirst, Limit: Window, WithoutBody: true,
	}
	if job.CursorInvalid {
		selection.Order, selection.Limit = eventstore.BySequence, 0
	}
	sent, page := &storeread.Set{}, make([]candidate, 0, pageSize)
	add := func() error {
		err := identify(ctx, store, job.Target, page)
		for _, c := range page {
			sent.Add(c.messageKey)
		}
		page = page[:0]
		return err
	}
	for event, err := range storeread.Readable(store.Events(ctx, selection)) {
		if err != nil {
			return nil, fmt.Errorf("looking up the sent messages: %w", err)
		}
		if page = append(page, candidate{event: event, summary: eventstore.Summarize(event)}); len(page) < pageSize {
			continue
		}
		if err := add(); err != nil {
			return nil, err
		}
	}
	return sent, add()
}
