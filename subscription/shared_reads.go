package subscription

import (
	"context"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// sharedReads lets the readers of a process share the requests that look for new events: any
// number of subscriptions cost as many as one. Watermarks that are a little old tell of fewer
// events, which is harmless, but for those that are read to confirm the highest sequence.
type sharedReads struct {
	Store

	// turn has an element while a reader reads or writes the fields below, or asks the store. A
	// reader whose context ends waits no more.
	turn      chan struct{}
	records   map[string]sharedRecord
	refreshed bool          // since the store was asked for a record
	took      time.Duration // of the latest refresh
}

// newSharedReads returns the store itself if its requests are shared already.
func newSharedReads(store Store) *sharedReads {
	if shared, isShared := store.(*sharedReads); isShared {
		return shared
	}
	return &sharedReads{Store: store, turn: make(chan struct{}, 1)}
}

// await returns when it is the turn of a reader, which then calls done.
func (s *sharedReads) await(ctx context.Context) (done func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type sharedRecord struct {
	document []byte
	version  string
	read     time.Time // when the request ended
}

const (
	minSharedFor = 25 * time.Millisecond
	maxSharedFor = 2 * time.Second

	// New watermarks need a refresh, which costs Elasticsearch as much as writing 50 events. If its processors are
	// busy, events would wait for their writes instead. So refreshes take one of so many parts of the time.
	partsOfTime = 5
)

// sharedFor is the time for which readers share watermarks.
func (s *sharedReads) sharedFor() time.Duration {
	return min(max(minSharedFor, partsOfTime*s.took), maxSharedFor)
}

// Record shares the watermarks of a source.
func (s *sharedReads) Record(ctx context.Context, kind, id string) ([]byte, string, error) {
	if kind != eventstore.WatermarkRecord {
		return s.Store.Record(ctx, kind, id)
	}
	done, err := s.await(ctx)
	if err != nil {
		return nil, "", err
	}
	defer done()
	if known, found := s.records[id]; found && time.Since(known.read) < s.sharedFor() {
		return known.document, known.version, nil
	}
	document, version, err := s.Store.Record(ctx, kind, id)
	if err == nil {
		if s.records == nil {
			s.records = map[string]sharedRecord{}
		}
		s.records[id], s.refreshed = sharedRecord{document, version, time.Now()}, false
	}
	return document, version, err
}

// Refresh makes the events visible that were stored when the watermarks were read.
func (s *sharedReads) Refresh(ctx context.Context) error {
	done, err := s.await(ctx)
	if err != nil {
		return err
	}
	defer done()
	if s.refreshed {
		return nil
	}
	began := time.Now()
	if err := s.Store.Refresh(ctx); err != nil {
		return err
	}
	s.refreshed, s.took = len(s.records) > 0, time.Since(began)
	return nil
}

// HighestSequence may tell of events that not every search finds yet, and of events of an indexer
// that has begun since the watermarks were read.
func (s *sharedReads) HighestSequence(ctx context.Context) (int64, error) {
	done, err := s.await(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	highest, err := s.Store.HighestSequence(ctx)
	s.refreshed, s.records = false, nil
	return highest, err
}
