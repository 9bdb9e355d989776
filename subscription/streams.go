package subscription

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// streams keeps the deliveries of a session in the order of their streams.
type streams struct {
	slots *semaphore.Weighted // of calls side by side; nil: one call after another
	calls sync.WaitGroup

	mu     sync.Mutex       // guards the fields below
	latest map[string]*sent // the last one of each stream on its way
	held   map[string]bool  // streams that have a parked message, of ParkStream
}

func newStreams(sub Subscription, held map[string]bool) *streams {
	s := &streams{latest: map[string]*sent{}, held: held}
	if sub.By == ByStream {
		s.slots = semaphore.NewWeighted(int64(sub.concurrency()))
	}
	return s
}

// enter gives an item its place in its stream. An event without a stream has none.
func (s *streams) enter(one *sent) {
	one.finished = make(chan struct{})
	id := one.Event.Stream.ID
	if id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one.before, s.latest[id] = s.latest[id], one
}

// finish lets the next one of the stream go. The outcome of the item is known.
func (s *streams) finish(one *sent, parksStream bool) {
	var poison poisonError
	s.mu.Lock()
	id := one.Event.Stream.ID
	if parksStream && id != "" && errors.As(one.err, &poison) {
		s.held[id] = true
	}
	if s.latest[id] == one {
		delete(s.latest, id)
	}
	one.before = nil // so that the latest one does not keep all that were before
	s.mu.Unlock()
	close(one.finished)
}

func (s *streams) holds(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id]
}

// awaitTurn waits until the outcome of the event before in the stream is known. It returns a poisonError if
// the stream is held.
func (s *session) awaitTurn(one *sent) error {
	if before := one.before; before != nil {
		select {
		case <-before.finished:
		case <-s.sending.Done():
			return context.Cause(s.sending)
		}
		if s.endsSession(before.err) {
			<-s.sending.Done()
			return context.Cause(s.sending)
		}
	}
	if s.streams.holds(one.Event.Stream.ID) {
		return poison(StreamHeld, nil)
	}
	return nil
}

// callBeside calls the target in a goroutine, once the event before in the stream is done and one of the
// concurrent calls has ended.
func (s *session) callBeside(d Delivery, one *sent) error {
	one.bytes = min(int64(len(d.Event.Envelope.Body))+1, windowBytes)
	if err := s.bytes.Acquire(s.sending, one.bytes); err != nil {
		one.bytes = 0
		return context.Cause(s.sending)
	}
	one.called = true
	one.Event.Envelope.Body = nil
	s.streams.calls.Go(func() {
		one.err = s.callInTurn(d, one)
		s.streams.finish(one, s.parksStreams())
	})
	return nil
}

func (s *session) callInTurn(d Delivery, one *sent) error {
	if err := s.awaitTurn(one); err != nil {
		return err
	}
	if err := s.streams.slots.Acquire(s.sending, 1); err != nil {
		return context.Cause(s.sending)
	}
	defer s.streams.slots.Release(1)
	return s.deliverByCall(s.sending, d)
}

// awaitOutcome waits until the outcome of an item is known.
func (s *session) awaitOutcome(ctx context.Context, one *sent) error {
	if one.called {
		select {
		case <-one.finished:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if one.pending != nil {
		one.err = s.outcome(one.pending.Wait(ctx))
		s.unconfirmed.Add(-1)
	}
	s.streams.finish(one, s.parksStreams())
	return nil
}
