package replayer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/watershipmq/watership/schemas"
)

const (
	pageSize  = 500     // events that are looked into at once
	pageBytes = 8 << 20 // of bodies in a page; one body may be larger
)

// found is an event of a selection, and what is to be done about it.
type candidate struct {
	event             schemas.Event
	fact              schemas.Fact // of the event
	message           key          // the message at the target
	originFingerprint string       // fingerprint of the message before replays changed it
	rival             *Rival       // another job that has the message; nil: none
	leftOut           string       // why its message is not sent; "" if it is
	err               error        // the document cannot be read
	scanned           int64        // events up to here, this one included
}

// scan goes through the selection of a job and decides about each event.
type scan struct {
	r         *Replayer
	job       Job
	selection schemas.Selection
	selector  *selector
	replays   *replayLookup
	rivals    []*Rival
	lease     *lease // where what is sent gets its body from; nil: it is read without bodies
	scanned   int64
}

// newScan knows what the whole selection holds of messages without an id.
func (r *Replayer) newScan(ctx context.Context, job Job, rivals []*Rival) (*scan, error) {
	selection, err := job.selection()
	if err != nil {
		return nil, err
	}
	s := &scan{r: r, job: job, selection: selection, selector: r.newSelector(job.Target), replays: r.newReplayLookup(job), rivals: rivals}
	return s, s.notePublished(ctx)
}

// notePublished looks at the few events that decide about others.
func (s *scan) notePublished(ctx context.Context) error {
	selection := s.selection
	selection.WithoutBody = true
	selection.Query = and(selection.Query, publishedWithoutID())
	if err := s.r.eachEvent(ctx, selection, s.selector.notePublished); err != nil {
		return fmt.Errorf("reading what the query finds: %w", err)
	}
	return nil
}

// eachEvent reads the events of a selection, but for those that cannot be read.
func (r *Replayer) eachEvent(ctx context.Context, selection schemas.Selection, do func(schemas.Event)) error {
	for event, err := range r.cfg.Store.Events(ctx, selection) {
		if endsRead(err) {
			return err
		}
		if err == nil {
			do(event)
		}
	}
	return nil
}

// endsRead says whether an error ends a reading. Others are about one document.
func endsRead(err error) bool {
	if err == nil {
		return false
	}
	var store *schemas.StoreError
	return errors.As(err, &store) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// pages gives the events behind a cursor, in order. It reads ahead, and looks
// into one page while the next is read.
func (s *scan) pages(ctx context.Context, after schemas.Cursor) iter.Seq2[[]candidate, error] {
	return prefetch(ctx, func(ctx context.Context) iter.Seq2[[]candidate, error] {
		return func(yield func([]candidate, error) bool) {
			for page, err := range prefetch(ctx, func(ctx context.Context) iter.Seq2[[]candidate, error] { return s.read(ctx, after) }) {
				if err == nil {
					err = s.decide(ctx, page)
				}
				if !yield(page, err) || err != nil {
					return
				}
			}
		}
	})
}

// read gives pages that nothing is decided about.
func (s *scan) read(ctx context.Context, after schemas.Cursor) iter.Seq2[[]candidate, error] {
	selection := s.selection
	selection.After, selection.WithoutBody = after, s.lease == nil
	return func(yield func([]candidate, error) bool) {
		page, bytes := make([]candidate, 0, pageSize), 0
		for event, err := range s.r.cfg.Store.Events(ctx, selection) {
			if endsRead(err) {
				yield(nil, fmt.Errorf("reading what the query finds: %w", err))
				return
			}
			s.scanned++
			page = append(page, candidate{event: event, fact: event.Fact(), err: err, scanned: s.scanned})
			if s.lease != nil {
				bytes += event.BodySize
			}
			if len(page) < pageSize && bytes < pageBytes {
				continue
			}
			if !yield(page, nil) {
				return
			}
			page, bytes = make([]candidate, 0, pageSize), 0
		}
		if len(page) > 0 {
			yield(page, nil)
		}
	}
}

// prefetch lets a sequence run one step ahead of whoever takes from it. The context
// that it gives the sequence ends with it.
func prefetch[T any](ctx context.Context, sequence func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	type step struct {
		value T
		err   error
	}
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		steps := make(chan step, 1)
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		work.Go(func() {
			defer close(steps)
			for value, err := range sequence(ctx) {
				select {
				case steps <- step{value, err}:
				case <-ctx.Done():
					return
				}
			}
		})
		for s := range steps {
			if !yield(s.value, s.err) {
				return
			}
		}
	}
}

// decide leaves out what was replayed or resolved before the job was planned, and
// chooses among the rest.
func (s *scan) decide(ctx context.Context, page []candidate) error {
	if err := s.r.identify(ctx, s.job.Target, page); err != nil {
		return err
	}
	known, err := s.replays.of(ctx, page)
	if err != nil {
		return err
	}
	resolved, err := s.r.resolvedReasons(ctx, s.job, page)
	if err != nil {
		return err
	}
	rivals, err := s.rivalsByMessage(ctx, page)
	if err != nil {
		return err
	}
	for i := range page {
		c := &page[i]
		switch {
		case c.err != nil:
			c.leftOut = unreadable
		case known.before(c):
			c.leftOut = alreadyReplayed
		default:
			c.leftOut = s.selector.selectMessage(c, resolved[i])
		}
		if c.leftOut == "" {
			c.rival = rivals[c.message]
			c.leftOut = s.rivalReason(c, known)
		}
	}
	if s.lease != nil {
		return s.findBodies(ctx, page)
	}
	return nil
}

// rivalReason says why a message that is chosen is not sent: another job has it, or
// has sent it since this one was planned.
func (s *scan) rivalReason(c *candidate, known knownReplays) (leftOut string) {
	switch {
	case c.rival != nil && !s.job.Again && c.rival.planned:
		return c.rival.reason()
	case c.rival != nil && !s.job.Again, known.since(c):
		return replayedSince
	}
	return ""
}

// rebuild decides again about everything up to the cursor, as it was decided
// before, and says whether the query still finds the same events there.
func (s *scan) rebuild(ctx context.Context, cursor schemas.Cursor) (same bool, err error) {
	lease, upTo := s.lease, s.selection.UpTo
	s.lease, s.selection.UpTo = nil, min(upTo, cursor.Sequence)
	defer func() { s.lease, s.selection.UpTo = lease, upTo }()
	page := make([]candidate, 0, pageSize)
	selection := s.selection
	selection.WithoutBody = true
	for event, err := range s.r.cfg.Store.Events(ctx, selection) {
		if endsRead(err) {
			return false, fmt.Errorf("reading what was sent before: %w", err)
		}
		if err == nil && isAfter(event, cursor) {
			break
		}
		s.scanned++
		if page = append(page, candidate{event: event, fact: event.Fact(), err: err}); len(page) < pageSize {
			continue
		}
		if err := s.decide(ctx, page); err != nil {
			return false, err
		}
		page = page[:0]
	}
	return s.scanned == s.job.Scanned, s.decide(ctx, page)
}

func isAfter(e schemas.Event, c schemas.Cursor) bool {
	return e.Sequence > c.Sequence || e.Sequence == c.Sequence && e.EventID > c.EventID
}

// count says how many events the selection has now.
func (s *scan) count(ctx context.Context) (int64, error) {
	if err := s.r.cfg.Store.Refresh(ctx); err != nil {
		return 0, fmt.Errorf("counting what the query finds: %w", err)
	}
	count, err := s.r.cfg.Store.Count(ctx, s.selection)
	if err != nil {
		return 0, fmt.Errorf("counting what the query finds: %w", err)
	}
	return count, nil
}
