package indexer

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// modelStore is a store in memory that fails the test if a document becomes visible at or
// below a position that a reader has passed.
type modelStore struct {
	t         *testing.T
	records   fakeRecords
	readDelay time.Duration // of each read

	mu        sync.Mutex // guards the fields below
	events    map[string]schemas.Event
	handovers map[string][]byte
	passed    int64 // by a reader
}

func newModelStore(t *testing.T) *modelStore {
	return &modelStore{t: t, events: map[string]schemas.Event{}, handovers: map[string][]byte{}}
}

func (m *modelStore) pass(sequence int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passed = max(m.passed, sequence)
}

func (m *modelStore) create(documents []schemas.Document) []eventstore.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make([]eventstore.Result, len(documents))
	for i, document := range documents {
		event, err := schemas.ParseDocument(document.Source)
		if err != nil {
			m.t.Error(err)
		}
		if _, found := m.events[document.ID]; found {
			results[i] = eventstore.Result{Status: eventstore.Conflict, Index: "model"}
			continue
		}
		if event.Sequence <= m.passed {
			m.t.Errorf("event %s becomes visible at %d, and a reader has passed %d", document.ID, event.Sequence, m.passed)
		}
		m.events[document.ID] = event
		results[i].Status = eventstore.Created
	}
	return results
}

func (m *modelStore) sorted(after eventstore.Cursor, upTo int64) (list []schemas.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if (e.Sequence > after.Sequence || e.Sequence == after.Sequence && e.EventID > after.EventID) && e.Sequence <= upTo {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b schemas.Event) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.EventID, b.EventID))
	})
	return list
}

// modelClient is the connection of a process to the store.
type modelClient struct {
	*modelStore
	mu   sync.Mutex // guards away
	away bool       // no request gets an answer
}

func (c *modelClient) setAway(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

func (c *modelClient) isAway() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

var errModelAway = &eventstore.Error{Kind: eventstore.Unavailable, Reason: "no answer"}

// lateWrite bounds the time between the sending of a bulk request and its effect.
const lateWrite = formerSessionWait - claimValidity - 100*time.Millisecond

// request calls f after a while, and returns another while later. It may be called even if
// ctx ends before.
func (c *modelClient) request(ctx context.Context, longest time.Duration, f func()) error {
	if c.isAway() {
		_ = pause(ctx, 1, rand.N(time.Second))
		return errModelAway
	}
	answered := make(chan struct{})
	go func() {
		time.Sleep(modelLatency(longest))
		f()
		time.Sleep(modelLatency(longest))
		close(answered)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
		return errModelAway
	}
	if c.isAway() || rand.IntN(200) == 0 { // the answer is lost
		return errModelAway
	}
	return nil
}

func modelLatency(longest time.Duration) time.Duration {
	if rand.IntN(20) == 0 {
		return rand.N(longest)
	}
	return rand.N(10 * time.Millisecond)
}

func (c *modelClient) Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	copied := slices.Clone(documents)
	for i := range copied {
		copied[i].Source = slices.Clone(copied[i].Source)
	}
	results := new([]eventstore.Result)
	if err := c.request(ctx, lateWrite, func() { *results = c.create(copied) }); err != nil {
		return nil, err
	}
	if rand.IntN(50) == 0 { // ends the session, while its other request is sent
		return nil, errors.New("an error that is no answer of the store")
	}
	return *results, nil
}

const modelReadLatency = 500 * time.Millisecond

func (c *modelClient) Find(ctx context.Context, ids []string) (map[string]eventstore.DocumentID, error) {
	found := map[string]eventstore.DocumentID{}
	return answered(ctx, c, found, func() {
		for _, id := range ids {
			if _, ok := c.events[id]; ok {
				found[id] = eventstore.DocumentID{Index: "model", ID: id}
			}
		}
	})
}

func (c *modelClient) Sequences(ctx context.Context, documents []eventstore.DocumentID) (map[eventstore.DocumentID]int64, error) {
	found := map[eventstore.DocumentID]int64{}
	return answered(ctx, c, found, func() {
		for _, d := range documents {
			if e, ok := c.events[d.ID]; ok {
				found[d] = e.Sequence
			}
		}
	})
}

// answered reads under the lock. Without an answer it returns no result.
func answered[T any](ctx context.Context, c *modelClient, result T, read func()) (none T, err error) {
	err = c.request(ctx, modelReadLatency, func() {
		time.Sleep(c.readDelay)
		c.modelStore.mu.Lock()
		defer c.modelStore.mu.Unlock()
		read()
	})
	if err != nil {
		return none, err
	}
	return result, nil
}

func (c *modelClient) HighestSequence(ctx context.Context) (int64, error) {
	highest := new(int64)
	_, err := answered(ctx, c, highest, func() {
		for _, e := range c.events {
			*highest = max(*highest, e.Sequence)
		}
	})
	if err != nil {
		return 0, err
	}
	return *highest, nil
}

func (c *modelClient) Removed(context.Context, string) (eventstore.Removed, error) {
	return eventstore.Removed{}, nil
}

func (c *modelClient) HighestSequenceOf(ctx context.Context, _ string) (int64, error) {
	return c.HighestSequence(ctx)
}

func (c *modelClient) KnownJobs(context.Context, []string) (map[string]bool, error) { return nil, nil }

func (c *modelClient) Handover(ctx context.Context, name string) ([]byte, error) {
	document := new([]byte)
	_, err := answered(ctx, c, document, func() { *document = c.handovers[name] })
	if err != nil {
		return nil, err
	}
	return *document, nil
}

func (c *modelClient) SaveHandover(ctx context.Context, name string, document []byte) error {
	_, err := answered(ctx, c, 0, func() { c.handovers[name] = document })
	return err
}

type modelRecord struct {
	document []byte
	version  string
}

func (c *modelClient) Record(ctx context.Context, kind, id string) ([]byte, string, error) {
	read := new(modelRecord)
	err := c.request(ctx, modelReadLatency, func() { read.document, read.version, _ = c.records.Record(ctx, kind, id) })
	if err != nil {
		return nil, "", err
	}
	return read.document, read.version, nil
}

func (c *modelClient) CreateRecord(ctx context.Context, kind, id string, document []byte) (string, error) {
	return c.SaveRecord(ctx, kind, id, "0", document)
}

func (c *modelClient) SaveRecord(ctx context.Context, kind, id, version string, document []byte) (string, error) {
	saved := new(string)
	err := c.request(ctx, modelReadLatency, func() { *saved, _ = c.records.SaveRecord(ctx, kind, id, version, document) })
	if err != nil {
		return "", err
	}
	return *saved, nil
}

func (c *modelClient) Refresh(ctx context.Context) error {
	return c.request(ctx, modelReadLatency, func() {})
}

func (c *modelClient) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		var list []schemas.Event
		if err := c.request(ctx, modelReadLatency, func() { list = c.sorted(selection.After, selection.UpTo) }); err != nil {
			yield(schemas.Event{}, err)
			return
		}
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}
