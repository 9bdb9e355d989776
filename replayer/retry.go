package replayer

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// withRetries returns a replayer that repeats reads while the store is unavailable or
// busy, until the timeout.
func (r *Replayer) withRetries(timeout time.Duration) *Replayer {
	retrying := *r
	retrying.cfg.Store = retryingStore{r.cfg.Store, timeout}
	retrying.cfg.Jobs = retryingJobs{r.cfg.Jobs, timeout}
	return &retrying
}

const (
	minRetryPause = 100 * time.Millisecond // doubles
	maxRetryPause = 5 * time.Second
)

// retryBudget limits the time for which a failing request is repeated.
type retryBudget struct {
	timeout time.Duration
	since   time.Time // of the first consecutive error
	pause   time.Duration
}

// wait pauses before the next attempt. It returns false for an error that is not
// temporary, and after the timeout.
func (t *retryBudget) wait(ctx context.Context, err error) bool {
	var failed *eventstore.Error
	if !errors.As(err, &failed) || failed.Kind != eventstore.Unavailable && failed.Kind != eventstore.Overloaded || ctx.Err() != nil {
		return false
	}
	if t.since.IsZero() {
		t.since, t.pause = time.Now(), minRetryPause
	}
	if time.Since(t.since) > t.timeout {
		return false
	}
	pause := max(t.pause, min(failed.RetryAfter, 6*maxRetryPause))
	t.pause = min(2*t.pause, maxRetryPause)
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// reset starts the timeout again after a success.
func (t *retryBudget) reset() { t.since = time.Time{} }

// retry repeats do until it succeeds or the timeout ends.
func retry[T any](ctx context.Context, timeout time.Duration, do func() (T, error)) (T, error) {
	for t := (retryBudget{timeout: timeout}); ; {
		answer, err := do()
		if err == nil || !t.wait(ctx, err) {
			return answer, err
		}
	}
}

// retryingStore repeats failed reads, and continues after the last event that was
// read.
type retryingStore struct {
	Store
	timeout time.Duration
}

func (s retryingStore) Count(ctx context.Context, selection eventstore.Selection) (int64, error) {
	return retry(ctx, s.timeout, func() (int64, error) { return s.Store.Count(ctx, selection) })
}

func (s retryingStore) HighestSequence(ctx context.Context) (int64, error) {
	return retry(ctx, s.timeout, func() (int64, error) { return s.Store.HighestSequence(ctx) })
}

func (s retryingStore) Refresh(ctx context.Context) error {
	_, err := retry(ctx, s.timeout, func() (struct{}, error) { return struct{}{}, s.Store.Refresh(ctx) })
	return err
}

// Events reads selections of the order NewestFirst completely before it yields, since
// they have no cursor.
func (s retryingStore) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	if selection.Order != eventstore.BySequence {
		return s.eventsAtOnce(ctx, selection)
	}
	return readWithRetries(ctx, s.timeout, selection, func(from eventstore.Selection) iter.Seq2[schemas.Event, error] {
		return s.Store.Events(ctx, from)
	}, func(e schemas.Event) eventstore.Cursor {
		return eventstore.Cursor{Sequence: e.Sequence, EventID: e.EventID}
	})
}

func (s retryingStore) Summaries(ctx context.Context, selection eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	selection.Order = eventstore.BySequence
	return readWithRetries(ctx, s.timeout, selection, func(from eventstore.Selection) iter.Seq2[eventstore.EventSummary, error] {
		return s.Store.Summaries(ctx, from, either...)
	}, func(f eventstore.EventSummary) eventstore.Cursor {
		return eventstore.Cursor{Sequence: f.Sequence, EventID: f.EventID}
	})
}

// readWithRetries yields the results of a selection, and after an error of the store
// continues after the last result.
func readWithRetries[T any](ctx context.Context, timeout time.Duration, selection eventstore.Selection,
	read func(eventstore.Selection) iter.Seq2[T, error], cursor func(T) eventstore.Cursor,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		t := retryBudget{timeout: timeout}
		unreadable, skip := 0, 0 // since the cursor: yielded, and still to skip
		yielded := 0
		for {
			var failed error
			for one, err := range read(selection) {
				if endsRead(err) {
					failed = err
					break
				}
				if err != nil && skip > 0 {
					skip--
					continue
				}
				if unreadable++; err == nil {
					selection.After, unreadable, skip = cursor(one), 0, 0
					t.reset()
				}
				if yielded++; !yield(one, err) {
					return
				}
			}
			if failed == nil {
				return
			}
			if !t.wait(ctx, failed) {
				var none T
				yield(none, failed)
				return
			}
			if skip = unreadable; selection.Limit > 0 {
				if selection.Limit -= yielded; selection.Limit <= 0 {
					return
				}
				yielded = 0
			}
		}
	}
}

func (s retryingStore) eventsAtOnce(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	type read struct {
		event schemas.Event
		err   error
	}
	return func(yield func(schemas.Event, error) bool) {
		all, err := retry(ctx, s.timeout, func() (all []read, err error) {
			for event, err := range s.Store.Events(ctx, selection) {
				if endsRead(err) {
					return nil, err
				}
				all = append(all, read{event, err})
			}
			return all, nil
		})
		if err != nil {
			yield(schemas.Event{}, err)
			return
		}
		for _, one := range all {
			if !yield(one.event, one.err) {
				return
			}
		}
	}
}

// retryingJobs repeats failed reads of jobs. Writes are not repeated: the second
// attempt would look like a change by another process.
type retryingJobs struct {
	jobs
	timeout time.Duration
}

type jobs = Jobs // an alias, since the embedded field must not hide the method Jobs

// Jobs restarts after an error, and skips the jobs it has yielded.
func (j retryingJobs) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		t, yielded := retryBudget{timeout: j.timeout}, 0
		for {
			var failed error
			skip := yielded
			for document, err := range j.jobs.Jobs(ctx) {
				if endsRead(err) {
					failed = err
					break
				}
				if skip--; skip >= 0 {
					continue
				}
				t.reset()
				if yielded++; !yield(document, err) {
					return
				}
			}
			if failed != nil && t.wait(ctx, failed) {
				continue
			}
			if failed != nil {
				yield(nil, failed)
			}
			return
		}
	}
}

func (j retryingJobs) Job(ctx context.Context, id string) ([]byte, string, error) {
	type job struct {
		document []byte
		version  string
	}
	found, err := retry(ctx, j.timeout, func() (job, error) {
		document, version, err := j.jobs.Job(ctx, id)
		return job{document, version}, err
	})
	return found.document, found.version, err
}
