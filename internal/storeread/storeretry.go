// Package storeread reads many events: ahead of their consumer, again while the store is
// unavailable or overloaded, and with a compact set of the keys that were seen.
package storeread

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/schemas"
)

const (
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// budget limits the time for which a failing request is repeated.
type budget struct {
	timeout  time.Duration
	since    time.Time // of the first consecutive error
	failures int       // since the last success
}

// wait pauses before the next attempt. It returns false for an error that is not
// temporary, and after the timeout.
func (t *budget) wait(ctx context.Context, err error) bool {
	var failed *eventstore.Error
	if !errors.As(err, &failed) || failed.Kind != eventstore.Unavailable && failed.Kind != eventstore.Overloaded || ctx.Err() != nil {
		return false
	}
	if t.since.IsZero() {
		t.since, t.failures = time.Now(), 0
	}
	if time.Since(t.since) > t.timeout {
		return false
	}
	t.failures++
	pauses := backoff.Backoff{Min: minPause, Max: maxPause}
	return pauses.Wait(ctx, t.failures, min(failed.RetryAfter, 6*maxPause)) == nil
}

// reset starts the timeout again after a success.
func (t *budget) reset() { t.since = time.Time{} }

// Do repeats do until it succeeds or the timeout ends.
func Do[T any](ctx context.Context, timeout time.Duration, do func() (T, error)) (T, error) {
	for t := (budget{timeout: timeout}); ; {
		answer, err := do()
		if err == nil || !t.wait(ctx, err) {
			return answer, err
		}
	}
}

// EventReader reads events. Its errors that are no *eventstore.Error concern one
// document, and the sequence continues.
type EventReader interface {
	Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error]
	Summaries(ctx context.Context, selection eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]
	Count(ctx context.Context, selection eventstore.Selection) (int64, error)
	Refresh(ctx context.Context) error
	HighestSequence(ctx context.Context) (int64, error)
}

// Events repeats failed reads of events, and continues after the last event that was
// read.
type Events struct {
	EventReader
	Timeout time.Duration
}

func (s Events) Count(ctx context.Context, selection eventstore.Selection) (int64, error) {
	return Do(ctx, s.Timeout, func() (int64, error) { return s.EventReader.Count(ctx, selection) })
}

func (s Events) HighestSequence(ctx context.Context) (int64, error) {
	return Do(ctx, s.Timeout, func() (int64, error) { return s.EventReader.HighestSequence(ctx) })
}

func (s Events) Refresh(ctx context.Context) error {
	_, err := Do(ctx, s.Timeout, func() (struct{}, error) { return struct{}{}, s.EventReader.Refresh(ctx) })
	return err
}

// Events reads selections of the order NewestFirst completely before it yields, since
// they have no cursor.
func (s Events) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	if selection.Order != eventstore.BySequence {
		return s.eventsAtOnce(ctx, selection)
	}
	return readWithRetries(ctx, s.Timeout, selection, func(from eventstore.Selection) iter.Seq2[schemas.Event, error] {
		return s.EventReader.Events(ctx, from)
	}, func(e schemas.Event) eventstore.Cursor {
		return eventstore.Cursor{Sequence: e.Sequence, EventID: e.EventID}
	})
}

func (s Events) Summaries(ctx context.Context, selection eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	selection.Order = eventstore.BySequence
	return readWithRetries(ctx, s.Timeout, selection, func(from eventstore.Selection) iter.Seq2[eventstore.EventSummary, error] {
		return s.EventReader.Summaries(ctx, from, either...)
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
		t := budget{timeout: timeout}
		unreadable, skip := 0, 0 // since the cursor: yielded, and still to skip
		yielded := 0
		for {
			var failed error
			for one, err := range read(selection) {
				if EndsRead(err) {
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

func (s Events) eventsAtOnce(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	type read struct {
		event schemas.Event
		err   error
	}
	return func(yield func(schemas.Event, error) bool) {
		all, err := Do(ctx, s.Timeout, func() (all []read, err error) {
			for event, err := range s.EventReader.Events(ctx, selection) {
				if EndsRead(err) {
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

// JobStore stores jobs.
type JobStore interface {
	CreateJob(ctx context.Context, id string, document []byte) (version string, err error)
	SaveJob(ctx context.Context, id, version string, document []byte) (newVersion string, err error)
	Job(ctx context.Context, id string) (document []byte, version string, err error)
	Jobs(ctx context.Context) iter.Seq2[[]byte, error]
}

// Jobs repeats failed reads of jobs. Writes are not repeated: the second attempt would
// look like a change by another process.
type Jobs struct {
	JobStore
	Timeout time.Duration
}

// Jobs restarts after an error, and skips the jobs it has yielded.
func (j Jobs) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		t, yielded := budget{timeout: j.Timeout}, 0
		for {
			var failed error
			skip := yielded
			for document, err := range j.JobStore.Jobs(ctx) {
				if EndsRead(err) {
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

func (j Jobs) Job(ctx context.Context, id string) ([]byte, string, error) {
	type job struct {
		document []byte
		version  string
	}
	found, err := Do(ctx, j.Timeout, func() (job, error) {
		document, version, err := j.JobStore.Job(ctx, id)
		return job{document, version}, err
	})
	return found.document, found.version, err
}

// EndsRead reports whether an error ends a sequence of events or jobs. Other errors
// concern one document.
func EndsRead(err error) bool {
	if err == nil {
		return false
	}
	var store *eventstore.Error
	return errors.As(err, &store) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Readable leaves out the documents that cannot be read, as after an upgrade that was taken back.
func Readable[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for one, err := range all {
			if (err == nil || EndsRead(err)) && !yield(one, err) {
				return
			}
		}
	}
}
