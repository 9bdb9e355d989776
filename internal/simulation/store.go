package simulation

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// storeFault is a fault of the store that a process meets for a time.
type storeFault int

const (
	refusesRequests storeFault = iota + 1 // it carries out nothing
	losesAnswers                          // it carries out the request, and does not say so
	answersLate
)

// processStore is the store as one process reaches it. A process that was killed reaches it no
// more, not even with a request that it had begun.
type processStore struct {
	system.EventStore
	world *world
	name  string

	mu     sync.Mutex // guards the fields below
	dead   bool
	until  time.Time // of the fault
	fault  storeFault
	paused time.Time // until then it begins no request
}

var errKilled = errors.New("the process was killed")

func unavailable(reason string) error {
	return &eventstore.Error{Kind: eventstore.Unavailable, Reason: reason}
}

// meet lets the process meet a fault for a time.
func (s *processStore) meet(fault storeFault, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.until = fault, time.Now().Add(d)
}

func (s *processStore) pause(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = time.Now().Add(d)
}

func (s *processStore) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

// reach waits for the time that a request takes to the store. Then the request may be carried
// out; answered returns the error of the answer.
func (s *processStore) reach(ctx context.Context) (answered func() error, err error) {
	s.mu.Lock()
	now := time.Now().UnixNano()
	latency := time.Duration(drawn(s.world.seed, s.name, now)%4000)*time.Microsecond + time.Duration(drawn(s.world.seed, s.name)%9973)
	if s.paused.After(time.Now()) {
		latency += time.Until(s.paused)
	}
	fault := s.faultNow()
	s.mu.Unlock()
	if fault == answersLate {
		latency += 3 * time.Second
	}
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return nil, unavailable(context.Cause(ctx).Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dead:
		return nil, unavailable(errKilled.Error())
	case fault == refusesRequests || s.faultNow() == refusesRequests:
		return nil, unavailable("the simulation refuses the request")
	}
	return func() error {
		if fault == losesAnswers {
			return unavailable("the simulation loses the answer")
		}
		return nil
	}, nil
}

// faultNow returns the fault of this moment. s.mu is held.
func (s *processStore) faultNow() storeFault {
	if time.Now().Before(s.until) {
		return s.fault
	}
	return 0
}

// Create implements system.EventStore.
func (s *processStore) Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	return answer(ctx, s, func() ([]eventstore.Result, error) { return s.EventStore.Create(ctx, documents) })
}

// Replace implements system.EventStore.
func (s *processStore) Replace(ctx context.Context, list []eventstore.Replacement) ([]eventstore.Result, error) {
	return answer(ctx, s, func() ([]eventstore.Result, error) { return s.EventStore.Replace(ctx, list) })
}

// CreateRecord implements system.EventStore.
func (s *processStore) CreateRecord(ctx context.Context, kind, id string, document []byte) (string, error) {
	return answer(ctx, s, func() (string, error) { return s.EventStore.CreateRecord(ctx, kind, id, document) })
}

// SaveRecord implements system.EventStore.
func (s *processStore) SaveRecord(ctx context.Context, kind, id, version string, document []byte) (string, error) {
	return answer(ctx, s, func() (string, error) { return s.EventStore.SaveRecord(ctx, kind, id, version, document) })
}

// DeleteRecord implements system.EventStore.
func (s *processStore) DeleteRecord(ctx context.Context, kind, id, version string) (bool, error) {
	return answer(ctx, s, func() (bool, error) { return s.EventStore.DeleteRecord(ctx, kind, id, version) })
}

// CreateJob implements system.EventStore.
func (s *processStore) CreateJob(ctx context.Context, id string, document []byte) (string, error) {
	return answer(ctx, s, func() (string, error) { return s.EventStore.CreateJob(ctx, id, document) })
}

// SaveJob implements system.EventStore.
func (s *processStore) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	return answer(ctx, s, func() (string, error) { return s.EventStore.SaveJob(ctx, id, version, document) })
}

// SaveHandover implements system.EventStore.
func (s *processStore) SaveHandover(ctx context.Context, name string, document []byte) error {
	_, err := answer(ctx, s, func() (struct{}, error) { return struct{}{}, s.EventStore.SaveHandover(ctx, name, document) })
	return err
}

// Retain implements system.EventStore.
func (s *processStore) Retain(ctx context.Context) (int64, error) {
	return answer(ctx, s, func() (int64, error) { return s.EventStore.Retain(ctx) })
}

// Install implements system.EventStore.
func (s *processStore) Install(ctx context.Context) error {
	_, err := answer(ctx, s, func() (struct{}, error) { return struct{}{}, s.EventStore.Install(ctx) })
	return err
}

// Find implements system.EventStore.
func (s *processStore) Find(ctx context.Context, ids []string) (map[string]eventstore.DocumentID, error) {
	return answer(ctx, s, func() (map[string]eventstore.DocumentID, error) { return s.EventStore.Find(ctx, ids) })
}

// HighestSequence implements system.EventStore.
func (s *processStore) HighestSequence(ctx context.Context) (int64, error) {
	return answer(ctx, s, func() (int64, error) { return s.EventStore.HighestSequence(ctx) })
}

// Events implements system.EventStore.
func (s *processStore) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		answered, err := s.reach(ctx)
		if err == nil {
			err = answered()
		}
		if err != nil {
			yield(schemas.Event{}, err)
			return
		}
		s.EventStore.Events(ctx, selection)(yield)
	}
}

// Close implements system.ClosableStore: the store belongs to the simulation.
func (s *processStore) Close() error { return nil }

// answer carries out a request that reaches the store.
func answer[T any](ctx context.Context, s *processStore, do func() (T, error)) (T, error) {
	var none T
	answered, err := s.reach(ctx)
	if err != nil {
		return none, err
	}
	result, err := do()
	if lost := answered(); lost != nil {
		return none, lost
	}
	return result, err
}
