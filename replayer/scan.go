package replayer

import (
	"context"
	"fmt"
	"iter"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/replayer/internal/lease"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

const (
	pageSize  = 500     // events per page
	pageBytes = 8 << 20 // of bodies in a page; one body may be larger
)

// candidate is an event of a selection with the decision about its message.
type candidate struct {
	event             schemas.Event
	summary           eventstore.EventSummary // of the event
	messageKey        storeread.Key           // the message at the target
	originFingerprint string                  // fingerprint of the original message, before changes by replays
	rival             *Rival                  // another job that sends the message; nil: none
	leftOut           Reason                  // why the message is not sent; "": it is sent
	err               error                   // why the document cannot be read
	scanned           int64                   // number of events up to this one
	recorded          schemas.Envelope        // the message as it is recorded, without its body; event may have its original
	mayBeOriginal     bool                    // it does, or the original body of another event
	result            *transform.Result       // result of the job's program, until it is used; nil: not known yet
}

// scan reads the selection of a job and decides about each event.
type scan struct {
	r         *Replayer
	job       Job
	selection eventstore.Selection
	selector  *selector
	replays   *replayLookup
	rivals    []*Rival
	lease     *lease.Lease // for bodies in the queue of unstorable messages; may be nil

	withBodies bool // events are read with their bodies
	scanned    int64
}

// newScan returns a scan that knows the `published` events of messages without an id.
func (r *Replayer) newScan(ctx context.Context, job Job, rivals []*Rival) (*scan, error) {
	selection, err := job.Selection()
	if err != nil {
		return nil, err
	}
	s := &scan{
		r: r, job: job, selection: selection, selector: newSelector(job.Target, r.cfg.Topology.Owns, r.cfg.Fingerprints.Folds),
		replays: &replayLookup{r: r, job: job, targets: map[string]Target{}}, rivals: rivals,
	}
	return s, s.notePublished(ctx)
}

// notePublished reads the few events that decide about others.
func (s *scan) notePublished(ctx context.Context) error {
	selection := s.selection
	selection.WithoutBody = true
	selection.Query = and(selection.Query, publishedWithoutID())
	if err := eachEvent(ctx, s.r.cfg.Store, selection, s.selector.notePublished); err != nil {
		return fmt.Errorf("reading the matching events: %w", err)
	}
	return nil
}

// eachEvent calls do for each readable event of a selection.
func eachEvent(ctx context.Context, store Store, selection eventstore.Selection, do func(schemas.Event)) error {
	for event, err := range storeread.Readable(store.Events(ctx, selection)) {
		if err != nil {
			return err
		}
		do(event)
	}
	return nil
}

// pages yields the candidates after a cursor, in order. It reads one page while it
// decides about the previous one.
func (s *scan) pages(ctx context.Context, after eventstore.Cursor) iter.Seq2[[]candidate, error] {
	return storeread.Sequence(ctx, func(ctx context.Context) iter.Seq2[[]candidate, error] {
		return func(yield func([]candidate, error) bool) {
			for page, err := range storeread.Sequence(ctx, func(ctx context.Context) iter.Seq2[[]candidate, error] { return s.read(ctx, after) }) {
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

// read yields pages of candidates without decisions.
func (s *scan) read(ctx context.Context, after eventstore.Cursor) iter.Seq2[[]candidate, error] {
	selection := s.selection
	selection.After, selection.WithoutBody = after, !s.withBodies
	return func(yield func([]candidate, error) bool) {
		page, bytes := make([]candidate, 0, pageSize), 0
		for event, err := range s.r.cfg.Store.Events(ctx, selection) {
			if storeread.EndsRead(err) {
				yield(nil, fmt.Errorf("reading the matching events: %w", err))
				return
			}
			s.scanned++
			recorded := event.Envelope
			recorded.Body = nil
			page = append(page, candidate{
				event: event, summary: eventstore.Summarize(event), err: err, scanned: s.scanned,
				recorded: recorded, mayBeOriginal: event.Envelope.Redacted,
			})
			if s.withBodies {
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

// decide leaves out messages that were replayed or resolved before the job was
// planned, and selects from the rest. A resumed job decides as before, but leaves out messages
// that were handled or discarded since: a job may be paused for days, and an operator who
// discards a message wants it sent no more.
func (s *scan) decide(ctx context.Context, page []candidate) error {
	if err := identify(ctx, s.r.cfg.Store, s.job.Target, page); err != nil {
		return err
	}
	known, err := s.replays.find(ctx, page)
	if err != nil {
		return err
	}
	resolved, err := resolvedReasons(ctx, s.r.cfg.Store, s.job, page)
	if err != nil {
		return err
	}
	unproven, err := s.unprovenOrigins(ctx, page)
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
			c.leftOut = Unreadable
		case c.event.OriginClaimed && unproven[history.OriginOf(c.event)]:
			c.leftOut = OriginClaimed
		case known.replayedBeforePlan(c):
			c.leftOut = AlreadyReplayed
		default:
			c.leftOut = s.selector.selectMessage(c, resolved[i].planned)
		}
		if c.leftOut == "" {
			c.rival = rivals[c.messageKey]
			c.leftOut = s.rivalReason(c, known)
		}
		if c.leftOut == "" && resolved[i].sincePlan() {
			c.leftOut = ResolvedSincePlan
		}
	}
	if s.withBodies {
		return s.findBodies(ctx, page)
	}
	return nil
}

// isCounted reports whether the job counts the message, which its plan has: it is sent, or left out since the plan.
func (c *candidate) isCounted() bool {
	return c.leftOut == "" || c.leftOut == ReplayedSincePlan || c.leftOut == ResolvedSincePlan
}

// rivalReason returns why a selected message is not sent: another job has it, or has
// sent it since this one was planned.
func (s *scan) rivalReason(c *candidate, known knownReplays) (leftOut Reason) {
	switch {
	case c.rival != nil && !s.job.Again && c.rival.planned:
		return c.rival.reason()
	case c.rival != nil && !s.job.Again, known.replayedSincePlan(c):
		return ReplayedSincePlan
	}
	return ""
}

// restoreDecisions repeats the decisions up to the cursor without sending, and reports
// whether the query still finds the same events there.
func (s *scan) restoreDecisions(ctx context.Context, cursor eventstore.Cursor) (same bool, err error) {
	page := make([]candidate, 0, pageSize)
	selection := s.selection // decisions are by all events up to the plan
	selection.UpTo, selection.WithoutBody = min(selection.UpTo, cursor.Sequence), true
	for event, err := range s.r.cfg.Store.Events(ctx, selection) {
		if storeread.EndsRead(err) {
			return false, fmt.Errorf("reading the events up to the cursor: %w", err)
		}
		if err == nil && isAfter(event, cursor) {
			break
		}
		s.scanned++
		if page = append(page, candidate{event: event, summary: eventstore.Summarize(event), err: err}); len(page) < pageSize {
			continue
		}
		if err := s.decide(ctx, page); err != nil {
			return false, err
		}
		page = page[:0]
	}
	return s.scanned == s.job.Scanned, s.decide(ctx, page)
}

func isAfter(e schemas.Event, c eventstore.Cursor) bool {
	return e.Sequence > c.Sequence || e.Sequence == c.Sequence && e.EventID > c.EventID
}

// count returns the current number of events in the selection.
func (s *scan) count(ctx context.Context) (int64, error) {
	if err := s.r.cfg.Store.Refresh(ctx); err != nil {
		return 0, fmt.Errorf("counting the matching events: %w", err)
	}
	count, err := s.r.cfg.Store.Count(ctx, s.selection)
	if err != nil {
		return 0, fmt.Errorf("counting the matching events: %w", err)
	}
	return count, nil
}
