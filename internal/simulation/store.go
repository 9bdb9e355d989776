package simulation

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// processStore is the store as one process reaches it: each request goes over its link.
type processStore struct {
	storedEvents
	storedRecords
	storedCounts
}

func newProcessStore(store system.EventStore, link *storeLink) processStore {
	return processStore{storedEvents{store, link}, storedRecords{store, link}, storedCounts{store, link}}
}

// Close implements system.ClosableStore: the store belongs to the simulation.
func (processStore) Close() error { return nil }

// Product implements system.EventStore.
func (s processStore) Product() string { return s.storedEvents.store.Product() }

// storedEvents are the requests that write and read events, and those about the store itself.
type storedEvents struct {
	store system.EventStore
	link  *storeLink
}

// Create implements system.EventStore.
func (s storedEvents) Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	return writeEach(ctx, s.link, cloned(documents), func(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
		results, err := s.store.Create(ctx, documents)
		s.link.world.created(documents, results)
		return results, err
	})
}

// cloned returns documents that their owner does not change while a late request has them.
func cloned(documents []schemas.Document) []schemas.Document {
	documents = slices.Clone(documents)
	for i := range documents {
		documents[i].Source = bytes.Clone(documents[i].Source)
	}
	return documents
}

// Replace implements system.EventStore.
func (s storedEvents) Replace(ctx context.Context, list []eventstore.Replacement) ([]eventstore.Result, error) {
	return writeEach(ctx, s.link, list, s.store.Replace)
}

// Retain implements system.EventStore.
func (s storedEvents) Retain(ctx context.Context) (int64, error) {
	return answer(ctx, s.link, func() (int64, error) { return s.store.Retain(ctx) })
}

// Install implements system.EventStore.
func (s storedEvents) Install(ctx context.Context) error {
	return s.link.do(ctx, func() error { return s.store.Install(ctx) })
}

// Find implements system.EventStore.
func (s storedEvents) Find(ctx context.Context, ids []string) (map[string]eventstore.DocumentID, error) {
	return answer(ctx, s.link, func() (map[string]eventstore.DocumentID, error) { return s.store.Find(ctx, ids) })
}

// HighestSequence implements system.EventStore.
func (s storedEvents) HighestSequence(ctx context.Context) (int64, error) {
	return answer(ctx, s.link, func() (int64, error) { return s.store.HighestSequence(ctx) })
}

// Sequences implements system.EventStore.
func (s storedEvents) Sequences(ctx context.Context, documents []eventstore.DocumentID) (map[eventstore.DocumentID]int64, error) {
	return answer(ctx, s.link, func() (map[eventstore.DocumentID]int64, error) { return s.store.Sequences(ctx, documents) })
}

// HighestSequenceOf implements system.EventStore.
func (s storedEvents) HighestSequenceOf(ctx context.Context, source string) (int64, error) {
	return answer(ctx, s.link, func() (int64, error) { return s.store.HighestSequenceOf(ctx, source) })
}

// Refresh implements system.EventStore.
func (s storedEvents) Refresh(ctx context.Context) error {
	return s.link.do(ctx, func() error { return s.store.Refresh(ctx) })
}

// Check implements system.EventStore.
func (s storedEvents) Check(ctx context.Context) error {
	return s.link.do(ctx, func() error { return s.store.Check(ctx) })
}

// Clock implements system.EventStore.
func (s storedEvents) Clock(ctx context.Context) (time.Time, error) {
	return answer(ctx, s.link, func() (time.Time, error) { return s.store.Clock(ctx) })
}

// Events implements system.EventStore.
func (s storedEvents) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return answers(ctx, s.link, s.store.Events(ctx, selection))
}

// Summaries implements system.EventStore.
func (s storedEvents) Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	return answers(ctx, s.link, s.store.Summaries(ctx, sel, either...))
}

// storedRecords are the requests about records, jobs and handovers.
type storedRecords struct {
	store system.EventStore
	link  *storeLink
}

// CreateRecord implements system.EventStore.
func (s storedRecords) CreateRecord(ctx context.Context, kind, id string, document []byte) (string, error) {
	return write(ctx, s.link, func(ctx context.Context) (string, error) {
		version, err := s.store.CreateRecord(ctx, kind, id, document)
		s.link.world.saved(kind, version, document)
		return version, err
	})
}

// SaveRecord implements system.EventStore.
func (s storedRecords) SaveRecord(ctx context.Context, kind, id, version string, document []byte) (string, error) {
	return write(ctx, s.link, func(ctx context.Context) (string, error) {
		next, err := s.store.SaveRecord(ctx, kind, id, version, document)
		s.link.world.saved(kind, next, document)
		return next, err
	})
}

// DeleteRecord implements system.EventStore.
func (s storedRecords) DeleteRecord(ctx context.Context, kind, id, version string) (bool, error) {
	return write(ctx, s.link, func(ctx context.Context) (bool, error) { return s.store.DeleteRecord(ctx, kind, id, version) })
}

// SubjectKeys implements system.EventStore.
func (s storedRecords) SubjectKeys(ctx context.Context, subjects []string) (map[string][]byte, error) {
	return answer(ctx, s.link, func() (map[string][]byte, error) { return s.store.SubjectKeys(ctx, subjects) })
}

// KeepSubjectKeys implements system.EventStore.
func (s storedRecords) KeepSubjectKeys(ctx context.Context, keys map[string][]byte) (map[string][]byte, error) {
	return write(ctx, s.link, func(ctx context.Context) (map[string][]byte, error) { return s.store.KeepSubjectKeys(ctx, keys) })
}

// DestroySubjectKeys implements system.EventStore.
func (s storedRecords) DestroySubjectKeys(ctx context.Context, subjects []string) ([]string, error) {
	return write(ctx, s.link, func(ctx context.Context) ([]string, error) { return s.store.DestroySubjectKeys(ctx, subjects) })
}

// CreateJob implements system.EventStore.
func (s storedRecords) CreateJob(ctx context.Context, id string, document []byte) (string, error) {
	return write(ctx, s.link, func(ctx context.Context) (string, error) { return s.store.CreateJob(ctx, id, document) })
}

// SaveJob implements system.EventStore.
func (s storedRecords) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	return write(ctx, s.link, func(ctx context.Context) (string, error) { return s.store.SaveJob(ctx, id, version, document) })
}

// SaveHandover implements system.EventStore.
func (s storedRecords) SaveHandover(ctx context.Context, name string, document []byte) error {
	_, err := write(ctx, s.link, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.store.SaveHandover(ctx, name, document)
	})
	return err
}

// KnownJobs implements system.EventStore.
func (s storedRecords) KnownJobs(ctx context.Context, ids []string) (map[string]bool, error) {
	return answer(ctx, s.link, func() (map[string]bool, error) { return s.store.KnownJobs(ctx, ids) })
}

// Handover implements system.EventStore.
func (s storedRecords) Handover(ctx context.Context, name string) ([]byte, error) {
	return answer(ctx, s.link, func() ([]byte, error) { return s.store.Handover(ctx, name) })
}

// Record implements system.EventStore.
func (s storedRecords) Record(ctx context.Context, kind, id string) (document []byte, version string, err error) {
	err = s.link.do(ctx, func() (err error) {
		document, version, err = s.store.Record(ctx, kind, id)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return document, version, nil
}

// Job implements system.EventStore.
func (s storedRecords) Job(ctx context.Context, id string) (document []byte, version string, err error) {
	err = s.link.do(ctx, func() (err error) {
		document, version, err = s.store.Job(ctx, id)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return document, version, nil
}

// Records implements system.EventStore.
func (s storedRecords) Records(ctx context.Context, kind string) iter.Seq2[[]byte, error] {
	return answers(ctx, s.link, s.store.Records(ctx, kind))
}

// Jobs implements system.EventStore.
func (s storedRecords) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	return answers(ctx, s.link, s.store.Jobs(ctx))
}

// storedCounts are the requests that count events.
type storedCounts struct {
	store system.EventStore
	link  *storeLink
}

// Count implements system.EventStore.
func (s storedCounts) Count(ctx context.Context, selection eventstore.Selection) (int64, error) {
	return answer(ctx, s.link, func() (int64, error) { return s.store.Count(ctx, selection) })
}

// TopValues implements system.EventStore.
func (s storedCounts) TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error) {
	return answer(ctx, s.link, func() (eventstore.Aggregation, error) { return s.store.TopValues(ctx, sel, field, n) })
}

// Present implements system.EventStore.
func (s storedCounts) Present(ctx context.Context, sel eventstore.Selection, of eventstore.FieldIn) (map[string]bool, error) {
	return answer(ctx, s.link, func() (map[string]bool, error) { return s.store.Present(ctx, sel, of) })
}

// Histogram implements system.EventStore.
func (s storedCounts) Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error) {
	return answer(ctx, s.link, func() (eventstore.Aggregation, error) { return s.store.Histogram(ctx, sel, field, n, zone) })
}

// HistogramByAction implements system.EventStore.
func (s storedCounts) HistogramByAction(ctx context.Context, sel eventstore.Selection, over eventstore.Steps, actions []schemas.Action) ([][]int64, error) {
	return answer(ctx, s.link, func() ([][]int64, error) { return s.store.HistogramByAction(ctx, sel, over, actions) })
}

// Percentiles implements system.EventStore.
func (s storedCounts) Percentiles(ctx context.Context, sel eventstore.Selection, by string, n int, fields ...string) (eventstore.PercentilesBy, error) {
	return answer(ctx, s.link, func() (eventstore.PercentilesBy, error) { return s.store.Percentiles(ctx, sel, by, n, fields...) })
}

// FirstTime implements system.EventStore.
func (s storedCounts) FirstTime(ctx context.Context, sel eventstore.Selection) (time.Time, error) {
	return answer(ctx, s.link, func() (time.Time, error) { return s.store.FirstTime(ctx, sel) })
}

// Removed implements system.EventStore.
func (s storedCounts) Removed(ctx context.Context, source string) (eventstore.Removed, error) {
	return answer(ctx, s.link, func() (eventstore.Removed, error) { return s.store.Removed(ctx, source) })
}
