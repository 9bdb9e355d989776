package replayer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/replayer/internal/lease"
	"github.com/watershipmq/watership/schemas"
)

// Rival is another job with the same target and common messages: it runs, or the
// `replayed` events of its messages are not in the store yet. This job leaves the
// common messages to it.
type Rival struct {
	Job        Job
	Running    bool
	Unrecorded int64 // sent messages whose `replayed` events are not in the store
	Messages   int   // common messages

	selection eventstore.Selection
	planned   bool // the plan of this job leaves its messages out
}

func (r *Rival) reason() Reason {
	if r.Running {
		return OtherJobSending
	}
	return OtherJobUnknown
}

const (
	maxRivalAge = 30 * 24 * time.Hour // of the oldest job considered
	recordLag   = time.Hour           // the longest delay of events between broker and store while the log is empty
)

// findRivals looks for rivals among the jobs of the last weeks, without those that leave the
// messages to this one. running reports whether a job has a runner.
func (r *Replayer) findRivals(ctx context.Context, job Job, log Log, running func(Job) (bool, error)) (rivals []*Rival, unreadable int, err error) {
	for other, err := range r.Jobs(ctx) {
		if storeread.EndsRead(err) {
			return nil, 0, fmt.Errorf("looking for jobs that replay the same: %w", err)
		}
		if err == nil && r.now().Sub(other.Created) > maxRivalAge {
			break
		}
		if err == nil && (other.ID == job.ID || !other.Target.Equal(job.Target) || slices.Contains(slices.Concat(other.LeaveOut, other.LeftTo), job.ID)) {
			continue
		}
		rival := &Rival{Job: other}
		if err == nil {
			rival.selection, err = other.Selection()
		}
		if err != nil { // for example of a newer version
			unreadable++
			continue
		}
		if rival.Running, err = running(other); err != nil {
			return nil, 0, err
		}
		if rival.Unrecorded, err = r.unrecorded(ctx, rival, log); err != nil {
			return nil, 0, fmt.Errorf("counting the `replayed` events of job %s: %w", other.ID, err)
		}
		if rival.Running || rival.Unrecorded > 0 {
			rivals = append(rivals, rival)
		}
	}
	return rivals, unreadable, nil
}

// unrecorded counts sent messages of a job whose `replayed` events are not in the
// store. An interrupted job could not count its last messages.
func (r *Replayer) unrecorded(ctx context.Context, rival *Rival, log Log) (int64, error) {
	job := rival.Job
	interrupted := job.State == Running && !rival.Running
	switch {
	case job.Sent == 0 && !interrupted,
		job.isPast(r.cfg.Retention, r.now()),
		!log.Unknown && log.Events == 0 && r.now().Sub(job.Updated) > recordLag:
		return 0, nil
	}
	missing, err := r.countMissing(ctx, job)
	if interrupted && log.Events > 0 {
		missing = max(missing, 1)
	}
	return missing, err
}

// countMissing counts the `replayed` events of a job that the store does not have; 0 if it may have deleted the first.
func (r *Replayer) countMissing(ctx context.Context, job Job) (int64, error) {
	if job.isPast(r.cfg.Retention, r.now()) {
		return 0, nil
	}
	ofJob := eventstore.Selection{Query: and(withActions(schemas.Replayed), kql.FieldIs("watership.replay.job", job.ID))}
	count, err := r.cfg.Store.Count(ctx, ofJob)
	if err == nil && count < int64(job.Sent) {
		if err = r.cfg.Store.Refresh(ctx); err == nil {
			count, err = r.cfg.Store.Count(ctx, ofJob)
		}
	}
	return max(0, int64(job.Sent)-count), err
}

// isPast reports whether the store may have deleted the first `replayed` events of the job.
func (j Job) isPast(retention time.Duration, now time.Time) bool {
	return retention > 0 && now.Sub(j.Started) > retention
}

// awaitRecord waits until the store has the `replayed` events of the job: as many as
// it counted, and those in the log, since a killed runner could not count its last
// ones.
func (r *Replayer) awaitRecord(ctx context.Context, l *lease.Lease, job Job) error {
	for began := r.now(); ; {
		missing, err := r.countMissing(ctx, job)
		if err != nil {
			return fmt.Errorf("looking up the sent messages: %w", err)
		}
		log, err := r.logOf(ctx, l)
		waited := r.now().Sub(began)
		late := waited >= r.recordTimeout
		switch {
		case err != nil:
			return err
		case missing == 0 && (log.Events == 0 || late && log.Consumers > 0):
			return nil
		case late || log.Consumers == 0 && waited >= consumerGrace:
			return &UnrecordedError{job.ID, missing, log.Events}
		}
		if err := backoff.Sleep(ctx, recordInterval); err != nil {
			return err
		}
	}
}

// UnrecordedError reports that a job cannot be resumed before the store has its
// `replayed` events.
type UnrecordedError struct {
	ID      string
	Missing int64 // sent messages without a `replayed` event in the store
	Waiting int   // events in the log
}

func (e *UnrecordedError) Error() string {
	return fmt.Sprintf("the record of %d messages that job %s sent is not in the store (%d events wait in the log): "+
		"run watership serve, which stores them, then resume the job", e.Missing, e.ID, e.Waiting)
}

// rivalsOf returns the rivals of a job at the start of a run: the rivals of its plan
// and newer ones. It saves them in the job, so that none of them leaves the same messages to
// this one. Jobs start one after another.
func (r *Replayer) rivalsOf(ctx context.Context, l *lease.Lease, job *Job) ([]*Rival, error) {
	if job.Again {
		return nil, nil
	}
	rivals, err := r.plannedRivals(ctx, *job)
	if err != nil {
		return nil, err
	}
	log, err := r.logOf(ctx, l)
	if err != nil {
		return nil, err
	}
	others, _, err := r.findRivals(ctx, *job, log, func(other Job) (bool, error) {
		if other.State != Running || other.Running(r.now()) {
			return other.State == Running, nil
		}
		return l.IsHeld(ctx, JobQueue(r.cfg.Topology, other.ID))
	})
	if err != nil {
		return nil, err
	}
	job.LeftTo = nil
	for _, other := range others {
		if !slices.Contains(job.LeaveOut, other.Job.ID) {
			rivals, job.LeftTo = append(rivals, other), append(job.LeftTo, other.Job.ID)
		}
	}
	return rivals, r.saveStart(ctx, job)
}

// saveStart saves a job before it sends anything.
func (r *Replayer) saveStart(ctx context.Context, job *Job) error {
	_, err := storeread.Do(ctx, storeTimeout, func() (struct{}, error) { return struct{}{}, r.saveOrAdopt(ctx, job) })
	if err == nil && job.State == Cancelled {
		return errCancelled
	}
	return err
}

// plannedRivals reads the jobs to which the plan of a job leaves messages.
func (r *Replayer) plannedRivals(ctx context.Context, job Job) ([]*Rival, error) {
	var rivals []*Rival
	for _, id := range job.LeaveOut {
		other, err := r.Job(ctx, id)
		var none *NoJobError
		if errors.As(err, &none) {
			continue
		}
		if err != nil {
			return nil, err
		}
		selection, err := other.Selection()
		if err != nil {
			return nil, err
		}
		rivals = append(rivals, &Rival{Job: other, selection: selection, planned: true})
	}
	return rivals, nil
}

// rivalsByMessage returns the rivals that have messages of a page.
func (s *scan) rivalsByMessage(ctx context.Context, page []candidate) (map[storeread.Key]*Rival, error) {
	if len(s.rivals) == 0 {
		return nil, nil
	}
	all, upTo := kql.Or{}, int64(0)
	for _, rival := range s.rivals {
		all, upTo = append(all, rival.selection.Query), max(upTo, rival.selection.UpTo)
	}
	if some, err := s.matchesAny(ctx, eventstore.Selection{Query: all, UpTo: upTo}, page); err != nil || !some {
		return nil, err
	}
	rivals := map[storeread.Key]*Rival{}
	for _, rival := range slices.Backward(s.rivals) { // the first rival of a message wins
		selection := eventstore.Selection{Query: rival.selection.Query, UpTo: rival.selection.UpTo}
		messages, err := s.messagesOf(ctx, selection, page)
		if err != nil {
			return nil, err
		}
		for message := range messages {
			rivals[message] = rival
		}
	}
	return rivals, nil
}

// matchesAny reports whether a selection has events with the fingerprints of a page.
func (s *scan) matchesAny(ctx context.Context, selection eventstore.Selection, page []candidate) (bool, error) {
	selection.Limit = 1
	for _, err := range s.r.cfg.Store.Summaries(ctx, selection, withFingerprints(page)) {
		if err != nil {
			return false, fmt.Errorf("looking up the messages of other jobs: %w", err)
		}
		return true, nil
	}
	return false, nil
}

// messagesOf returns the messages on a page that have events in a selection. Equal
// messages without an id may have any number of events, so it reads them a page at a
// time.
func (s *scan) messagesOf(ctx context.Context, selection eventstore.Selection, page []candidate) (map[storeread.Key]bool, error) {
	asked, messages := make(map[storeread.Key]bool, len(page)), map[storeread.Key]bool{}
	for _, c := range page {
		asked[c.messageKey] = true
	}
	events := make([]candidate, 0, pageSize)
	add := func() error {
		err := identify(ctx, s.r.cfg.Store, s.job.Target, events)
		for _, e := range events {
			if asked[e.messageKey] {
				messages[e.messageKey] = true
			}
		}
		events = events[:0]
		return err
	}
	for summary, err := range s.r.cfg.Store.Summaries(ctx, selection, withFingerprints(page)) {
		if err != nil {
			return nil, fmt.Errorf("looking up the messages of other jobs: %w", err)
		}
		if events = append(events, candidate{summary: summary}); len(events) < pageSize {
			continue
		}
		if err := add(); err != nil {
			return nil, err
		}
	}
	return messages, add()
}
