package subscription

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history/bodies"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/exclusive"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// Bounds of the memory of a runner.
const (
	window      = 1000     // messages without a confirm
	windowBytes = 32 << 20 // of their bodies; one body may be larger
	pageSize    = 500      // events that are read at once
	pageBytes   = 8 << 20  // of their bodies
)

// session is one reading of the events after the checkpoint, until an error.
type session struct {
	*runner
	sending     context.Context // ends when the session stops sending
	cancel      context.CancelCauseFunc
	confirming  context.Context // ends when it stops waiting for confirms
	abort       context.CancelCauseFunc
	bytes       *semaphore.Weighted
	streams     *streams
	inFlight    chan *sent
	unconfirmed atomic.Int64 // number of messages to the queue
	room        int          // messages that the queue still may get until it is looked at again
	looked      time.Time    // at the queue
}

// sent is an item on its way through a session, in order.
type sent struct {
	Item
	bytes   int64
	pending *rabbit.Pending // of a message to a queue; nil: err is the outcome
	called  bool            // by a goroutine, which sets err before it closes finished
	err     error
	skipped bool

	messageID string // as it is recorded

	before   *sent         // in its stream, if that is on its way, too
	finished chan struct{} // closed when the outcome is known
}

func (r *runner) session(ctx context.Context) error {
	held, err := r.retryParked(ctx)
	if err != nil {
		return err
	}
	r.bound = false // the queue may have been declared again
	s := &session{runner: r, bytes: semaphore.NewWeighted(windowBytes), streams: newStreams(r.settings, held), inFlight: make(chan *sent, window)}
	s.sending, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	s.confirming, s.abort = context.WithCancelCause(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(s.drain)
	work.Go(s.keepSaving)
	work.Go(func() {
		err := s.confirm(s.confirming)
		s.cancel(err)
		s.abort(err)
	})
	err = s.send()
	close(s.inFlight)
	work.Wait()
	s.streams.calls.Wait()
	if cause := context.Cause(s.sending); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// drainTimeout is the time that a session waits for confirms when it is stopped: messages
// without one are delivered again later.
const drainTimeout = 5 * time.Second

// drain ends confirming some time after sending, or with the connection.
func (s *session) drain() {
	select {
	case <-s.conn.Lost():
	case <-s.confirming.Done():
	case <-s.sending.Done():
		timer := time.NewTimer(drainTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.conn.Lost():
		case <-s.confirming.Done():
		}
	}
	s.abort(exclusive.ErrLost)
}

// pages reads the events after the checkpoint with their bodies and upcast, a page ahead.
func (s *session) pages(ctx context.Context) iter.Seq2[[]*sent, error] {
	return storeread.Sequence(ctx, func(ctx context.Context) iter.Seq2[[]*sent, error] {
		return func(yield func([]*sent, error) bool) {
			query, err := kql.Parse(s.settings.Query)
			if err != nil {
				yield(nil, stopError{fmt.Errorf("its query cannot be read: %w", err)})
				return
			}
			reader := Reader{Store: s.events, Source: s.settings.Source, Query: query, Interval: s.cfg.Interval, Accept: s.settings.Accepted}
			limit := pageSize
			if s.checkpoint().Waiting == BodyPending { // often nothing else is read before the next session
				reader.first, limit = 1, 1
			}
			var page []*sent // often short, since each look for new events ends one
			bytes := 0
			for item, err := range reader.Items(ctx, s.checkpoint().Position) {
				var removed *RemovedError
				if errors.As(err, &removed) {
					err = stopError{err}
				}
				if err != nil {
					yield(nil, err)
					return
				}
				page = append(page, &sent{Item: item, messageID: item.Event.Envelope.Properties.MessageID})
				bytes += len(item.Event.Envelope.Body)
				if !item.CaughtUp && len(page) < limit && bytes < pageBytes {
					continue
				}
				limit = pageSize
				if err := s.findBodies(ctx, page); err != nil {
					yield(nil, err)
					return
				}
				for len(page) > 0 {
					upcast, err := s.upcast.page(ctx, page)
					if !yield(page[:upcast], nil) {
						return
					}
					if err != nil {
						yield(nil, err)
						return
					}
					page = page[upcast:]
				}
				page, bytes = nil, 0
			}
		}
	})
}

// findBodies loads the bodies that are not in the events themselves, as bodies of handled
// events.
func (r *runner) findBodies(ctx context.Context, page []*sent) error {
	missing := bodies.NewMissing(r.cfg.Fingerprints)
	missing.Opener = r.cfg.Opener
	for _, one := range page {
		if !one.CaughtUp && one.Err == nil && one.Event.BodyIn != schemas.BodyHere {
			missing.Add(ctx, &one.Event)
		}
	}
	err := missing.FindStored(ctx, r.cfg.Store)
	if err == nil && missing.Len() > 0 {
		err = missing.FindUnstorable(ctx, r.conn, r.cfg.Topology.Unstorable())
	}
	for _, one := range page {
		if err == nil {
			err = open(ctx, r.cfg.Opener, one)
		}
	}
	return err
}

// open replaces a redacted message by its original, or refuses to deliver it. It fails if the store does not
// answer that has a key of it.
func open(ctx context.Context, opener privacy.Opener, one *sent) error {
	if one.CaughtUp || one.Err != nil {
		return nil
	}
	err := privacy.Open(ctx, opener, &one.Event)
	if _, unread := errors.AsType[*eventstore.Error](err); unread {
		return err
	}
	if _, erased := errors.AsType[*privacy.ErasedError](err); erased {
		one.err = poison(SubjectErased, err)
	} else if err != nil {
		one.err = poison(OriginalSealed, err)
	}
	return nil
}

// send sends the events in order until ctx ends or one cannot be sent.
func (s *session) send() error {
	for page, err := range s.pages(s.sending) {
		if err != nil {
			return err
		}
		for _, one := range page {
			if err := s.sendOne(one); err != nil {
				return err
			}
			if err := s.pass(one); err != nil {
				return err
			}
		}
	}
	return context.Cause(s.sending)
}

// pass passes an item on. After one that ends the session it waits for the end, so that no
// later one passes it.
func (s *session) pass(one *sent) error {
	isLast := !one.called && s.endsSession(one.err)
	select {
	case s.inFlight <- one: // also when ctx has ended, since it may be delivered
	default:
		select {
		case s.inFlight <- one:
		case <-s.sending.Done():
			return context.Cause(s.sending)
		}
	}
	if isLast {
		<-s.sending.Done()
		return context.Cause(s.sending)
	}
	return nil
}

func (r *runner) stopsAtPoison() bool { return r.settings.OnPoison == Stop || r.unnamed }

func (r *runner) parksStreams() bool { return r.settings.OnPoison == ParkStream && !r.unnamed }

// endsSession reports whether the session ends at an item with this outcome.
func (r *runner) endsSession(outcome error) bool {
	var poison poisonError
	return outcome != nil && (r.stopsAtPoison() || !errors.As(outcome, &poison))
}

// sendOne returns an error if the session cannot go on. An outcome of the message is in one.
func (s *session) sendOne(one *sent) error {
	event := &one.Event
	s.streams.enter(one)
	switch {
	case one.CaughtUp:
		return nil
	case one.Err != nil:
		one.err = poison(Unreadable, one.Err)
		return nil
	case s.settings.Target.causes(*event):
		one.skipped = true
		return nil
	case event.BodyIn != schemas.BodyHere && bodies.MayCome(*event):
		one.err = waits(BodyPending, nil)
		return nil
	case event.BodyIn != schemas.BodyHere:
		one.err = poison(BodyMissing, nil)
		return nil
	case one.err != nil: // of its upcast
		return nil
	}
	d := Delivery{s.settings.Name, one.Position, *event}
	if s.streams.slots != nil {
		return s.callBeside(d, one)
	}
	if s.parksStreams() {
		if one.err = s.awaitTurn(one); one.err != nil {
			return endOf(s.sending, one.err)
		}
	}
	if s.settings.Target.Kind != ToQueue {
		one.err = s.deliverByCall(s.sending, d)
		event.Envelope.Body = nil
		return endOf(s.sending, one.err)
	}
	one.bytes = min(int64(len(event.Envelope.Body))+1, windowBytes)
	if err := s.bytes.Acquire(s.sending, one.bytes); err != nil {
		return context.Cause(s.sending)
	}
	if err := s.awaitRoom(); err != nil {
		return err
	}
	s.publish(d, one)
	event.Envelope.Body = nil
	return nil
}

// endOf returns the error of a call if it ends a session.
func endOf(ctx context.Context, err error) error {
	var poison poisonError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &poison):
		return nil
	}
	return err
}

// confirm handles the outcomes in order. It ends with the error that ends the session.
func (s *session) confirm(ctx context.Context) error {
	for one := range s.inFlight {
		if err := s.awaitOutcome(ctx, one); err != nil {
			return err
		}
		s.bytes.Release(one.bytes)
		if err := s.done(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// keepSaving saves checkpoints while messages are confirmed, which do not wait for it. It saves those
// without a change now and then, too, which tell that the subscription is run.
func (s *session) keepSaving() {
	ticker := time.NewTicker(saveLook)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.confirming.Done():
			return
		}
		s.mu.Lock()
		due := s.dirty && (time.Since(s.saved) >= saveInterval || s.unsaved >= saveAfter)
		isOld := time.Since(s.saved) >= aliveInterval
		s.mu.Unlock()
		if !due && !isOld {
			continue
		}
		err := s.saveCheckpoint(s.confirming, isOld)
		var store *eventstore.Error
		if err != nil && s.confirming.Err() == nil && (!errors.As(err, &store) || store.Kind == eventstore.BadRequest) {
			s.cancel(err) // of a store that is unavailable, reading fails, too
			s.abort(err)
			return
		}
	}
}

// done moves the checkpoint over an item.
func (s *session) done(ctx context.Context, one *sent) error {
	var poison poisonError
	switch {
	case errors.As(one.err, &poison):
		if err := s.handlePoison(ctx, one, poison); err != nil {
			return err
		}
	case one.err != nil:
		return one.err
	}
	s.update(func(c *Checkpoint) bool {
		s.unsaved++
		switch {
		case one.CaughtUp:
			changed := !c.CaughtUp || c.Waiting != "" || time.UnixMicro(one.Position.Sequence).Sub(time.UnixMicro(c.Position.Sequence)) > idleInterval
			if changed {
				c.Position, c.CaughtUp, c.Waiting, c.Error = one.Position, true, "", ""
			}
			return changed
		case one.Err != nil: // it has no position
			c.Parked++
			return true
		case one.err != nil:
			c.Parked++
		case !one.skipped:
			c.Delivered++
		}
		c.Position, c.CaughtUp, c.Waiting, c.Error = one.Position, false, "", ""
		return true
	})
	return nil
}

// handlePoison parks a message, or returns a stopError.
func (s *session) handlePoison(ctx context.Context, one *sent, poison poisonError) error {
	if s.stopsAtPoison() {
		return stopError{fmt.Errorf("event %s at position %s cannot be delivered: %w", one.Event.EventID, FormatPosition(one.Position), poison)}
	}
	p := Parked{
		Subscription: s.settings.Name, Position: one.Position, EventID: one.Event.EventID, Action: one.Event.RecordedAction(),
		MessageID: one.messageID, Stream: one.Event.Stream.ID, Cause: poison.cause, Error: s.cfg.text(poison.reason), Time: time.Now().UTC(),
	}
	if one.Err != nil {
		p.Position = s.checkpoint().Position
	}
	count := 0
	list, err := s.Parked(ctx, s.settings.Name)
	if err != nil {
		return err
	}
	if count = len(list); count >= MaxParked {
		return stopError{fmt.Errorf("%d messages are parked, and no more are: retry or drop them; the latest error: %w", count, poison)}
	}
	if err := s.park(ctx, p); err != nil {
		return err
	}
	s.cfg.Logger.Warn("a message of a subscription is parked", "subscription", s.settings.Name, "position", FormatPosition(p.Position), "error", poison)
	return nil
}
