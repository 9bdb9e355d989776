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
type found struct {
	event   schemas.Event
	fact    schemas.Fact // of the event
	message key          // the message at the target
	origin  string       // fingerprint of the message before replays changed it
	rival   *Rival       // another job that has the message; nil: none
	leftOut string       // why its message is not sent; "" if it is
	err     error        // the document cannot be read
	seen    int64        // events up to here, this one included
}

// reading goes through the selection of a job and decides about each event.
type reading struct {
	r         *Replayer
	job       Job
	selection schemas.Selection
	choice    *choice
	replays   *replays
	rivals    []*Rival
	line      *line // where what is sent gets its body from; nil: it is read without bodies
	seen      int64
}

// newReading knows what the whole selection holds of messages without an id.
func (r *Replayer) newReading(ctx context.Context, job Job, rivals []*Rival) (*reading, error) {
	selection, err := job.selection()
	if err != nil {
		return nil, err
	}
	d := &reading{r: r, job: job, selection: selection, choice: r.choice(job.Target), replays: r.newReplays(job), rivals: rivals}
	return d, d.note(ctx)
}

// note looks at the few events that decide about others.
func (d *reading) note(ctx context.Context) error {
	selection := d.selection
	selection.WithoutBody = true
	selection.Query = both(selection.Query, anonymousPublished())
	if err := d.r.each(ctx, selection, d.choice.note); err != nil {
		return fmt.Errorf("reading what the query finds: %w", err)
	}
	return nil
}

// each reads the events of a selection, but for those that cannot be read.
func (r *Replayer) each(ctx context.Context, selection schemas.Selection, take func(schemas.Event)) error {
	for event, err := range r.cfg.Store.Events(ctx, selection) {
		if ends(err) {
			return err
		}
		if err == nil {
			take(event)
		}
	}
	return nil
}

// ends says whether an error ends a reading. Others are about one document.
func ends(err error) bool {
	if err == nil {
		return false
	}
	var store *schemas.StoreError
	return errors.As(err, &store) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// pages gives the events behind a cursor, in order. It reads ahead, and looks
// into one page while the next is read.
func (d *reading) pages(ctx context.Context, after schemas.Cursor) iter.Seq2[[]found, error] {
	return ahead(ctx, func(ctx context.Context) iter.Seq2[[]found, error] {
		return func(yield func([]found, error) bool) {
			for page, err := range ahead(ctx, func(ctx context.Context) iter.Seq2[[]found, error] { return d.read(ctx, after) }) {
				if err == nil {
					err = d.decide(ctx, page)
				}
				if !yield(page, err) || err != nil {
					return
				}
			}
		}
	})
}

// read gives pages that nothing is decided about.
func (d *reading) read(ctx context.Context, after schemas.Cursor) iter.Seq2[[]found, error] {
	selection := d.selection
	selection.After, selection.WithoutBody = after, d.line == nil
	return func(yield func([]found, error) bool) {
		page, bytes := make([]found, 0, pageSize), 0
		for event, err := range d.r.cfg.Store.Events(ctx, selection) {
			if ends(err) {
				yield(nil, fmt.Errorf("reading what the query finds: %w", err))
				return
			}
			d.seen++
			page = append(page, found{event: event, fact: event.Fact(), err: err, seen: d.seen})
			if d.line != nil {
				bytes += event.BodySize
			}
			if len(page) < pageSize && bytes < pageBytes {
				continue
			}
			if !yield(page, nil) {
				return
			}
			page, bytes = make([]found, 0, pageSize), 0
		}
		if len(page) > 0 {
			yield(page, nil)
		}
	}
}

// ahead lets a sequence run one step ahead of whoever takes from it. The context
// that it gives the sequence ends with it.
func ahead[T any](ctx context.Context, sequence func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
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
func (d *reading) decide(ctx context.Context, page []found) error {
	if err := d.r.identify(ctx, d.job.Target, page); err != nil {
		return err
	}
	known, err := d.replays.of(ctx, page)
	if err != nil {
		return err
	}
	resolved, err := d.r.resolved(ctx, d.job, page)
	if err != nil {
		return err
	}
	taken, err := d.takenBy(ctx, page)
	if err != nil {
		return err
	}
	for i := range page {
		f := &page[i]
		switch {
		case f.err != nil:
			f.leftOut = unreadable
		case known.before(f):
			f.leftOut = alreadyReplayed
		default:
			f.leftOut = d.choice.take(f, resolved[i])
		}
		if f.leftOut == "" {
			f.rival = taken[f.message]
			f.leftOut = d.leftToOthers(f, known)
		}
	}
	if d.line != nil {
		return d.findBodies(ctx, page)
	}
	return nil
}

// leftToOthers says why a message that is chosen is not sent: another job has it, or
// has sent it since this one was planned.
func (d *reading) leftToOthers(f *found, known replayed) (leftOut string) {
	switch {
	case f.rival != nil && !d.job.Again && f.rival.planned:
		return f.rival.reason()
	case f.rival != nil && !d.job.Again, known.since(f):
		return replayedSince
	}
	return ""
}

// rebuild decides again about everything up to the cursor, as it was decided
// before, and says whether the query still finds the same events there.
func (d *reading) rebuild(ctx context.Context, cursor schemas.Cursor) (same bool, err error) {
	line, upTo := d.line, d.selection.UpTo
	d.line, d.selection.UpTo = nil, min(upTo, cursor.Sequence)
	defer func() { d.line, d.selection.UpTo = line, upTo }()
	page := make([]found, 0, pageSize)
	selection := d.selection
	selection.WithoutBody = true
	for event, err := range d.r.cfg.Store.Events(ctx, selection) {
		if ends(err) {
			return false, fmt.Errorf("reading what was sent before: %w", err)
		}
		if err == nil && behind(event, cursor) {
			break
		}
		d.seen++
		if page = append(page, found{event: event, fact: event.Fact(), err: err}); len(page) < pageSize {
			continue
		}
		if err := d.decide(ctx, page); err != nil {
			return false, err
		}
		page = page[:0]
	}
	return d.seen == d.job.Seen, d.decide(ctx, page)
}

func behind(e schemas.Event, c schemas.Cursor) bool {
	return e.Sequence > c.Sequence || e.Sequence == c.Sequence && e.EventID > c.EventID
}

// count says how many events the selection has now.
func (d *reading) count(ctx context.Context) (int64, error) {
	if err := d.r.cfg.Store.Refresh(ctx); err != nil {
		return 0, fmt.Errorf("counting what the query finds: %w", err)
	}
	count, err := d.r.cfg.Store.Count(ctx, d.selection)
	if err != nil {
		return 0, fmt.Errorf("counting what the query finds: %w", err)
	}
	return count, nil
}
