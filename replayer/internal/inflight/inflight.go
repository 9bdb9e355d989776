// Package inflight bounds the messages that a job has sent and that their consumers have not
// handled yet, and keeps the order of streams: a message of a stream follows when the one
// before it is handled.
package inflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

// Message is a message to send.
type Message struct {
	ID          string // unique in the job
	Fingerprint string
	Stream      string // "": none
	Bytes       int64  // of memory
}

// Outcome is the state of a sent message.
type Outcome int

// The outcomes. A message whose outcome is Unknown is in flight.
const (
	Unknown Outcome = iota
	Handled
	Failed
)

// Config configures a Sender.
type Config[T any] struct {
	Limit   int // messages in flight
	Ordered bool
	Stop    bool // a stream ends at the first message that fails

	// Outcomes reads the outcomes of messages in flight, by their ids. Others are Unknown.
	Outcomes func(ctx context.Context, messages []Message) (map[string]Outcome, error)

	// Send sends a message; with stopped it leaves out the message, since an earlier one of
	// its stream failed.
	Send func(message T, stopped bool) error
}

// Sender sends messages. Its methods are for one goroutine, but for Unsent.
type Sender[T any] struct {
	cfg      Config[T]
	inFlight map[string]Message   // by id
	busy     map[string]bool      // streams with a message in flight
	stopped  map[string]bool      // streams
	held     map[string][]item[T] // of streams, in order
	order    []*position          // of messages that were held, oldest first
	bytes    int64                // of held messages
	added    int64
	progress time.Time
	lastRead time.Time // of outcomes

	mu     sync.Mutex // guards unsent
	unsent []string
}

type item[T any] struct {
	Message
	value T
	at    *position
}

// position is the place of a held message among all messages.
type position struct {
	number int64
	isSent bool
}

const (
	// Lookahead is the number of messages after the oldest unsent one that may be sent.
	Lookahead = 2000

	// MaxHeldBytes is the maximum size of held messages.
	MaxHeldBytes = 64 << 20
	shortest     = 50 * time.Millisecond // pause between reads of outcomes
	longest      = time.Second

	// Timeout ends a job if no message in flight gets an outcome for so long.
	Timeout = time.Hour
)

// New returns a Sender without messages.
func New[T any](cfg Config[T]) *Sender[T] {
	now := time.Now()
	return &Sender[T]{
		cfg: cfg, inFlight: map[string]Message{}, busy: map[string]bool{}, stopped: map[string]bool{}, held: map[string][]item[T]{}, progress: now, lastRead: now,
	}
}

// Resume adds a message that an earlier run has sent.
func (s *Sender[T]) Resume(m Message) {
	s.inFlight[m.ID] = m
	s.busy[m.Stream] = true
}

// Fail stops a stream of which a message has failed in an earlier run.
func (s *Sender[T]) Fail(stream string) {
	if s.cfg.Stop && stream != "" {
		s.stopped[stream] = true
	}
}

// Unsent removes a message that did not reach its consumer. It is safe for concurrent use.
func (s *Sender[T]) Unsent(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsent = append(s.unsent, id)
}

// Add sends a message as soon as the limit allows, or holds it until the message before it in
// its stream is handled. It waits while too many messages are held.
func (s *Sender[T]) Add(ctx context.Context, m Message, value T) error {
	if err := s.Pass(ctx); err != nil {
		return err
	}
	if s.mustHold(m) || len(s.held) > 0 {
		if err := s.poll(ctx); err != nil {
			return err
		}
	}
	if s.mustHold(m) {
		at := &position{number: s.added}
		s.held[m.Stream] = append(s.held[m.Stream], item[T]{m, value, at})
		s.order, s.bytes = append(s.order, at), s.bytes+m.Bytes
		return nil
	}
	return s.send(ctx, item[T]{Message: m, value: value})
}

// mustHold reports whether a message waits for the one before it in its stream.
func (s *Sender[T]) mustHold(m Message) bool {
	return s.cfg.Ordered && m.Stream != "" && !s.stopped[m.Stream] && s.busy[m.Stream]
}

// Pass counts a message that is not sent. It waits while the oldest held message is too far
// behind.
func (s *Sender[T]) Pass(ctx context.Context) error {
	s.added++
	for !s.hasRoom() {
		if err := s.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Sleep pauses the caller for d. It sends held messages in that time, and may take longer for it.
func (s *Sender[T]) Sleep(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); ; {
		if len(s.held) > 0 {
			if err := s.poll(ctx); err != nil {
				return err
			}
		}
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if len(s.held) > 0 {
			left = min(left, longest)
		}
		if err := backoff.Sleep(ctx, left); err != nil {
			return err
		}
	}
}

// Drain sends the messages that are held.
func (s *Sender[T]) Drain(ctx context.Context) error {
	for len(s.held) > 0 {
		if err := s.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hasRoom reports whether another message may be held.
func (s *Sender[T]) hasRoom() bool {
	for len(s.order) > 0 && s.order[0].isSent {
		s.order = s.order[1:]
	}
	return len(s.order) == 0 || s.added-s.order[0].number < Lookahead && s.bytes < MaxHeldBytes
}

// send sends a message when the limit allows.
func (s *Sender[T]) send(ctx context.Context, next item[T]) error {
	isStopped := s.cfg.Ordered && s.stopped[next.Stream]
	if !isStopped {
		s.busy[next.Stream] = true // so that no other message of the stream is sent until then
		for len(s.inFlight) >= s.cfg.Limit {
			if err := s.await(ctx); err != nil {
				return err
			}
		}
		s.inFlight[next.ID] = next.Message
	}
	if next.at != nil {
		next.at.isSent = true
		s.bytes -= next.Bytes
	}
	err := s.cfg.Send(next.value, isStopped)
	if !isStopped {
		s.progress = time.Now() // it may have waited for the rate of the job
	}
	return err
}

// await waits until a message in flight has an outcome, and sends the next messages of the
// streams.
func (s *Sender[T]) await(ctx context.Context) error {
	for pause := shortest; ; pause = min(2*pause, longest) {
		outcomes, err := s.read(ctx)
		if err != nil {
			return err
		}
		if len(outcomes) > 0 {
			s.progress = time.Now()
			return s.finish(ctx, outcomes)
		}
		if time.Since(s.progress) > Timeout {
			return fmt.Errorf("no consumer has reported about any of %d messages in flight for %s: see the queues that they were sent to", len(s.inFlight), Timeout)
		}
		if err := backoff.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// poll sends the next messages of the streams whose message in flight has an outcome. It does
// nothing if the outcomes were read in the last second.
func (s *Sender[T]) poll(ctx context.Context) error {
	if time.Since(s.lastRead) < longest {
		return nil
	}
	outcomes, err := s.read(ctx)
	if err != nil || len(outcomes) == 0 {
		return err
	}
	s.progress = time.Now()
	return s.finish(ctx, outcomes)
}

// read returns the outcomes of messages in flight that are known.
func (s *Sender[T]) read(ctx context.Context) (map[string]Outcome, error) {
	s.lastRead = time.Now()
	outcomes, err := s.cfg.Outcomes(ctx, slices.Collect(maps.Values(s.inFlight)))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.unsent {
		if _, isInFlight := s.inFlight[id]; isInFlight {
			outcomes[id] = Failed
		}
	}
	s.unsent = nil
	return outcomes, nil
}

// finish removes messages with an outcome, and sends the next messages of their streams.
func (s *Sender[T]) finish(ctx context.Context, outcomes map[string]Outcome) error {
	var streams []string
	for id, outcome := range outcomes {
		stream := s.inFlight[id].Stream
		delete(s.inFlight, id)
		delete(s.busy, stream)
		if outcome == Failed {
			s.Fail(stream)
		}
		streams = append(streams, stream)
	}
	slices.Sort(streams)
	for _, stream := range slices.Compact(streams) {
		if err := s.next(ctx, stream); err != nil {
			return err
		}
	}
	return nil
}

// next sends the next message of a stream, or leaves out all if the stream is stopped.
func (s *Sender[T]) next(ctx context.Context, stream string) error {
	for len(s.held[stream]) > 0 && !s.busy[stream] {
		next := s.held[stream][0]
		if s.held[stream] = s.held[stream][1:]; len(s.held[stream]) == 0 {
			delete(s.held, stream)
		}
		if err := s.send(ctx, next); err != nil {
			return err
		}
	}
	return nil
}
