package replayer

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// withPatience is the same replayer, which reads on where the store was away or busy
// for less than so long.
func (r *Replayer) withPatience(patience time.Duration) *Replayer {
	patient := *r
	patient.cfg.Store = patientStore{r.cfg.Store, patience}
	patient.cfg.Jobs = patientJobs{r.cfg.Jobs, patience}
	return &patient
}

const (
	firstStorePause   = 100 * time.Millisecond // doubles
	longestStorePause = 5 * time.Second
)

// retries counts how long a store has not answered.
type retries struct {
	patience time.Duration
	since    time.Time // of the first error in a row
	pause    time.Duration
}

// again waits before a request is repeated. It says no to an error that will not go
// away by itself, and when its patience ends.
func (t *retries) again(ctx context.Context, err error) bool {
	var failed *schemas.StoreError
	if !errors.As(err, &failed) || failed.Kind != schemas.StoreAway && failed.Kind != schemas.StoreBusy || ctx.Err() != nil {
		return false
	}
	if t.since.IsZero() {
		t.since, t.pause = time.Now(), firstStorePause
	}
	if time.Since(t.since) > t.patience {
		return false
	}
	pause := max(t.pause, min(failed.RetryAfter, 6*longestStorePause))
	t.pause = min(2*t.pause, longestStorePause)
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// answered begins to count again.
func (t *retries) answered() { t.since = time.Time{} }

// repeat asks until there is an answer.
func repeat[T any](ctx context.Context, patience time.Duration, ask func() (T, error)) (T, error) {
	for t := (retries{patience: patience}); ; {
		answer, err := ask()
		if err == nil || !t.again(ctx, err) {
			return answer, err
		}
	}
}

// patientStore asks again, and reads on from the last event that it has read.
type patientStore struct {
	Store
	patience time.Duration
}

func (s patientStore) Count(ctx context.Context, selection schemas.Selection) (int64, error) {
	return repeat(ctx, s.patience, func() (int64, error) { return s.Store.Count(ctx, selection) })
}

func (s patientStore) HighestSequence(ctx context.Context) (int64, error) {
	return repeat(ctx, s.patience, func() (int64, error) { return s.Store.HighestSequence(ctx) })
}

func (s patientStore) Refresh(ctx context.Context) error {
	_, err := repeat(ctx, s.patience, func() (struct{}, error) { return struct{}{}, s.Store.Refresh(ctx) })
	return err
}

// Events of the order NewestFirst, in which no cursor is, come all at once.
func (s patientStore) Events(ctx context.Context, selection schemas.Selection) iter.Seq2[schemas.Event, error] {
	if selection.Order != schemas.BySequence {
		return s.allAtOnce(ctx, selection)
	}
	return readOn(ctx, s.patience, selection, func(from schemas.Selection) iter.Seq2[schemas.Event, error] {
		return s.Store.Events(ctx, from)
	}, func(e schemas.Event) schemas.Cursor { return schemas.Cursor{Sequence: e.Sequence, EventID: e.EventID} })
}

func (s patientStore) Summaries(ctx context.Context, selection schemas.Selection, either ...schemas.Among) iter.Seq2[schemas.Fact, error] {
	selection.Order = schemas.BySequence
	return readOn(ctx, s.patience, selection, func(from schemas.Selection) iter.Seq2[schemas.Fact, error] {
		return s.Store.Summaries(ctx, from, either...)
	}, func(f schemas.Fact) schemas.Cursor { return schemas.Cursor{Sequence: f.Sequence, EventID: f.EventID} })
}

// readOn reads what a selection has, and where the store fails goes on with what is
// behind the last that it gave.
func readOn[T any](ctx context.Context, patience time.Duration, selection schemas.Selection,
	read func(schemas.Selection) iter.Seq2[T, error], cursor func(T) schemas.Cursor,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		t := retries{patience: patience}
		unreadable, again := 0, 0 // since the cursor: given, and to be skipped
		given := 0
		for {
			var failed error
			for one, err := range read(selection) {
				if ends(err) {
					failed = err
					break
				}
				if err != nil && again > 0 {
					again--
					continue
				}
				if unreadable++; err == nil {
					selection.After, unreadable, again = cursor(one), 0, 0
					t.answered()
				}
				if given++; !yield(one, err) {
					return
				}
			}
			if failed == nil {
				return
			}
			if !t.again(ctx, failed) {
				var none T
				yield(none, failed)
				return
			}
			if again = unreadable; selection.Limit > 0 {
				if selection.Limit -= given; selection.Limit <= 0 {
					return
				}
				given = 0
			}
		}
	}
}

func (s patientStore) allAtOnce(ctx context.Context, selection schemas.Selection) iter.Seq2[schemas.Event, error] {
	type read struct {
		event schemas.Event
		err   error
	}
	return func(yield func(schemas.Event, error) bool) {
		all, err := repeat(ctx, s.patience, func() (all []read, err error) {
			for event, err := range s.Store.Events(ctx, selection) {
				if ends(err) {
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

// patientJobs asks again for jobs. What changes one is asked once: its repetition
// would look like somebody else's.
type patientJobs struct {
	jobs
	patience time.Duration
}

type jobs = Jobs // embedded, it has a method of that name

// Jobs begins again where reading fails, and leaves out as many as it gave.
func (j patientJobs) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		t, given := retries{patience: j.patience}, 0
		for {
			var failed error
			skip := given
			for document, err := range j.jobs.Jobs(ctx) {
				if ends(err) {
					failed = err
					break
				}
				if skip--; skip >= 0 {
					continue
				}
				t.answered()
				if given++; !yield(document, err) {
					return
				}
			}
			if failed != nil && t.again(ctx, failed) {
				continue
			}
			if failed != nil {
				yield(nil, failed)
			}
			return
		}
	}
}

func (j patientJobs) Job(ctx context.Context, id string) ([]byte, string, error) {
	type job struct {
		document []byte
		version  string
	}
	found, err := repeat(ctx, j.patience, func() (job, error) {
		document, version, err := j.jobs.Job(ctx, id)
		return job{document, version}, err
	})
	return found.document, found.version, err
}
