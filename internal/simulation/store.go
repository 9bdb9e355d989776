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
	store system.EventStore // not embedded, so that no request passes by
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
	return answer(ctx, s, func() ([]eventstore.Result, error) { return s.store.Create(ctx, documents) })
}

// Replace implements system.EventStore.
func (s *processStore) Replace(ctx context.Context, list []eventstore.Replacement) ([]eventstore.Result, error) {
	return answer(ctx, s, func() ([]eventstore.Result, error) { return s.store.Replace(ctx, list) })
}

// CreateRecord implements system.EventStore.
func (s *processStore) CreateRecord(ctx context.Context, kind, id string, document []byte) (string, error) {
	return answer(ctx, s, func() (string, error) { return s.store.CreateRecord(ctx, kind, id, document) })
}

// SaveRecord implements system.EventStore.
func (s *processStore) SaveRecord(ctx context.Context, kind, id, version string, document []byte) (string, error) {
	return answer(ctx, s, func() (string, error) { return s.store.SaveRecord(ctx, kind, id, version, document) })
}

// DeleteRecord implements system.EventStore.
func (s *processStore) DeleteRecord(ctx context.Context, kind, id, version string) (bool, error) {
	return answer(ctx, s, func() (bool, error) { return s.store.DeleteRecord(ctx, kind, id, version) })
}

// CreateJob implements system.EventStore.
func (s *processStore) CreateJob(ctx context.Context, id string, document []byte) (string, error) {
	return answer(ctx, s, func() (string, error) { return s.store.CreateJob(ctx, id, document) })
}

// SaveJob implements system.EventStore.
func (s *processStore) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	return answer(ctx, s, func() (string, error) { return s.store.SaveJob(ctx, id, version, document) })
}

// SaveHandover implements system.EventStore.
func (s *processStore) SaveHandover(ctx context.Context, name string, document []byte) error {
	return s.do(ctx, func() error { return s.store.SaveHandover(ctx, name, document) })
}

// Retain implements system.EventStore.
func (s *processStore) Retain(ctx context.Context) (int64, error) {
	return answer(ctx, s, func() (int64, error) { return s.store.Retain(ctx) })
}

// Install implements system.EventStore.
func (s *processStore) Install(ctx context.Context) error {
	return s.do(ctx, func() error { return s.store.Install(ctx) })
}

// Find implements system.EventStore.
func (s *processStore) Find(ctx context.Context, ids []string) (map[string]eventstore.DocumentID, error) {
	return answer(ctx, s, func() (map[string]eventstore.DocumentID, error) { return s.store.Find(ctx, ids) })
}

// HighestSequence implements system.EventStore.
func (s *processStore) HighestSequence(ctx context.Context) (int64, error) {
	return answer(ctx, s, func() (int64, error) { return s.store.HighestSequence(ctx) })
}

// Sequences implements system.EventStore.
func (s *processStore) Sequences(ctx context.Context, documents []eventstore.DocumentID) (map[eventstore.DocumentID]int64, error) {
	return answer(ctx, s, func() (map[eventstore.DocumentID]int64, error) { return s.store.Sequences(ctx, documents) })
}

// HighestSequenceOf implements system.EventStore.
func (s *processStore) HighestSequenceOf(ctx context.Context, source string) (int64, error) {
	return answer(ctx, s, func() (int64, error) { return s.store.HighestSequenceOf(ctx, source) })
}

// KnownJobs implements system.EventStore.
func (s *processStore) KnownJobs(ctx context.Context, ids []string) (map[string]bool, error) {
	return answer(ctx, s, func() (map[string]bool, error) { return s.store.KnownJobs(ctx, ids) })
}

// Handover implements system.EventStore.
func (s *processStore) Handover(ctx context.Context, name string) ([]byte, error) {
	return answer(ctx, s, func() ([]byte, error) { return s.store.Handover(ctx, name) })
}

// Record implements system.EventStore.
func (s *processStore) Record(ctx context.Context, kind, id string) (document []byte, version string, err error) {
	err = s.do(ctx, func() (err error) {
		document, version, err = s.store.Record(ctx, kind, id)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return document, version, nil
}

// Job implements system.EventStore.
func (s *processStore) Job(ctx context.Context, id string) (document []byte, version string, err error) {
	err = s.do(ctx, func() (err error) {
		document, version, err = s.store.Job(ctx, id)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return document, version, nil
}

// Count implements system.EventStore.
func (s *processStore) Count(ctx context.Context, selection eventstore.Selection) (int64, error) {
	return answer(ctx, s, func() (int64, error) { return s.store.Count(ctx, selection) })
}

// Refresh implements system.EventStore.
func (s *processStore) Refresh(ctx context.Context) error {
	return s.do(ctx, func() error { return s.store.Refresh(ctx) })
}

// Check implements system.EventStore.
func (s *processStore) Check(ctx context.Context) error {
	return s.do(ctx, func() error { return s.store.Check(ctx) })
}

// Clock implements system.EventStore.
func (s *processStore) Clock(ctx context.Context) (time.Time, error) {
	return answer(ctx, s, func() (time.Time, error) { return s.store.Clock(ctx) })
}

// TopValues implements system.EventStore.
func (s *processStore) TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error) {
	return answer(ctx, s, func() (eventstore.Aggregation, error) { return s.store.TopValues(ctx, sel, field, n) })
}

// Histogram implements system.EventStore.
func (s *processStore) Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error) {
	return answer(ctx, s, func() (eventstore.Aggregation, error) { return s.store.Histogram(ctx, sel, field, n, zone) })
}

// HistogramByAction implements system.EventStore.
func (s *processStore) HistogramByAction(ctx context.Context, sel eventstore.Selection, over eventstore.Steps, actions []schemas.Action) ([][]int64, error) {
	return answer(ctx, s, func() ([][]int64, error) { return s.store.HistogramByAction(ctx, sel, over, actions) })
}

// FirstTime implements system.EventStore.
func (s *processStore) FirstTime(ctx context.Context, sel eventstore.Selection) (time.Time, error) {
	return answer(ctx, s, func() (time.Time, error) { return s.store.FirstTime(ctx, sel) })
}

// Removed implements system.EventStore.
func (s *processStore) Removed(ctx context.Context, source string) (eventstore.Removed, error) {
	return answer(ctx, s, func() (eventstore.Removed, error) { return s.store.Removed(ctx, source) })
}

// Events implements system.EventStore.
func (s *processStore) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return answers(ctx, s, s.store.Events(ctx, selection))
}

// Summaries implements system.EventStore.
func (s *processStore) Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	return answers(ctx, s, s.store.Summaries(ctx, sel, either...))
}

// Records implements system.EventStore.
func (s *processStore) Records(ctx context.Context, kind string) iter.Seq2[[]byte, error] {
	return answers(ctx, s, s.store.Records(ctx, kind))
}

// Jobs implements system.EventStore.
func (s *processStore) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	return answers(ctx, s, s.store.Jobs(ctx))
}

// Close implements system.ClosableStore: the store belongs to the simulation.
func (s *processStore) Close() error { return nil }

// do is answer for a request whose result is an error.
func (s *processStore) do(ctx context.Context, request func() error) error {
	_, err := answer(ctx, s, func() (struct{}, error) { return struct{}{}, request() })
	return err
}

// answers yields the results of a request that reaches the store.
func answers[T any](ctx context.Context, s *processStore, results iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		answered, err := s.reach(ctx)
		if err == nil {
			err = answered()
		}
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		results(yield)
	}
}

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
