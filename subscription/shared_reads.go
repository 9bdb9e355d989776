package subscription

import (
	"context"
	"sync"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// sharedReads lets the readers of a process share the requests that look for new events: any
// number of subscriptions cost as many as one. Watermarks that are a little old tell of fewer
// events, which is harmless, but for those that are read to confirm the highest sequence.
type sharedReads struct {
	Store

	mu        sync.Mutex // guards the fields below, and serializes the requests
	records   map[string]sharedRecord
	refreshed time.Time // beginning of the latest refresh
}

type sharedRecord struct {
	document []byte
	version  string
	read     time.Time // when the request ended
}

// sharedFor is the time for which readers share an answer.
const sharedFor = 25 * time.Millisecond

// Record shares the watermarks of a source.
func (s *sharedReads) Record(ctx context.Context, kind, id string) ([]byte, string, error) {
	if kind != eventstore.WatermarkRecord {
		return s.Store.Record(ctx, kind, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, found := s.records[id]; found && time.Since(known.read) < sharedFor {
		return known.document, known.version, nil
	}
	document, version, err := s.Store.Record(ctx, kind, id)
	if err == nil {
		if s.records == nil {
			s.records = map[string]sharedRecord{}
		}
		s.records[id] = sharedRecord{document, version, time.Now()}
	}
	return document, version, err
}

// Refresh makes the events visible that were stored when the watermarks were read.
func (s *sharedReads) Refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := false
	for _, known := range s.records {
		needed = needed || !s.refreshed.After(known.read)
	}
	if !needed && len(s.records) > 0 {
		return nil
	}
	began := time.Now()
	err := s.Store.Refresh(ctx)
	if err == nil {
		s.refreshed = began
	}
	return err
}

// HighestSequence may tell of events that not every search finds yet, and of events of an indexer
// that has begun since the watermarks were read.
func (s *sharedReads) HighestSequence(ctx context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	highest, err := s.Store.HighestSequence(ctx)
	s.refreshed, s.records = time.Time{}, nil
	return highest, err
}
