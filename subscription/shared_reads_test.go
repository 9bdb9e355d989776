package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// claimed is a store in which an indexer begins while the highest sequence is read: it has
// stored 100, but not 99.
type claimed struct {
	Store
	begun bool
}

func (s *claimed) Record(context.Context, string, string) ([]byte, string, error) {
	if !s.begun {
		return nil, "", nil
	}
	document, err := json.Marshal(eventstore.Watermarks{Queues: map[string]eventstore.Watermark{"index": {Session: "a", Sequence: 98}}})
	return document, "1", err
}

func (*claimed) Refresh(context.Context) error { return nil }

func (s *claimed) HighestSequence(context.Context) (int64, error) {
	s.begun = true
	return 100, nil
}

func TestSharedReadsAreNoOlderThanTheHighestSequence(t *testing.T) {
	for name, store := range map[string]eventstore.WatermarkStore{"alone": &claimed{}, "shared": newSharedReads(&claimed{})} {
		if complete, err := eventstore.Complete(t.Context(), store, "shop"); complete != 98 || err != nil {
			t.Errorf("%s: complete up to %d, %v; want 98", name, complete, err)
		}
	}
}

// silent is a store that does not answer.
type silent struct{ Store }

func (silent) Refresh(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A reader that ends does not wait for the request of another one.
func TestSharedReadsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newSharedReads(silent{})
		first := make(chan error, 1)
		slow, endSlow := context.WithCancel(t.Context())
		go func() { first <- shared.Refresh(slow) }()
		synctest.Wait()

		ended, end := context.WithCancel(t.Context())
		end()
		answers := make(chan error, 3)
		go func() {
			_, _, err := shared.Record(ended, eventstore.WatermarkRecord, "shop")
			answers <- err
			answers <- shared.Refresh(ended)
			_, err = shared.HighestSequence(ended)
			answers <- err
		}()
		synctest.Wait()
		if len(answers) != 3 {
			t.Errorf("%d of 3 requests have ended with their context", len(answers))
		}
		endSlow()
		<-first
		for range 3 {
			if err := <-answers; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

// busy is a store whose watermark rises all the time, and whose refreshes take as long as its processors are busy.
type busy struct {
	Store
	took      time.Duration
	refreshes int
}

func (*busy) Record(_ context.Context, kind, _ string) ([]byte, string, error) {
	if kind != eventstore.WatermarkRecord {
		return nil, "", nil
	}
	document, err := json.Marshal(eventstore.Watermarks{Queues: map[string]eventstore.Watermark{"index": {Session: "a", Sequence: time.Now().UnixMicro()}}})
	return document, "1", err
}

func (b *busy) Refresh(context.Context) error {
	b.refreshes++
	time.Sleep(b.took)
	return nil
}

func (*busy) Events(_ context.Context, s eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) { yield(schemas.Event{Sequence: s.UpTo}, nil) }
}

func (*busy) Removed(context.Context, string) (eventstore.Removed, error) {
	return eventstore.Removed{}, nil
}

// A watermark that is read after a refresh needs another one, also at the same time of a coarse clock.
func TestEachWatermarkIsRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &busy{}
		shared := newSharedReads(store)
		for _, then := range []func(){
			func() { _, _, _ = shared.Record(t.Context(), eventstore.WatermarkRecord, "shop") },
			func() { time.Sleep(minSharedFor) },
			func() { _ = shared.Refresh(t.Context()) },
			func() { _, _, _ = shared.Record(t.Context(), eventstore.WatermarkRecord, "shop") },
			func() { _ = shared.Refresh(t.Context()) },
			func() { _ = shared.Refresh(t.Context()) },
		} {
			then()
		}
		if store.refreshes != 2 {
			t.Errorf("%d refreshes of 2 watermarks", store.refreshes)
		}
	})
}

// A store whose refreshes are slow is refreshed less often, however many readers of the process wait.
func TestReadersPauseAfterSlowRefreshes(t *testing.T) {
	for _, c := range []struct {
		took      time.Duration
		refreshes int // of ten readers in a minute
	}{
		{time.Millisecond, 600},      // at least
		{200 * time.Millisecond, 62}, // at most a fifth of the time
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &busy{took: c.took}
			shared := newSharedReads(store)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var readers sync.WaitGroup
			reads := make([]int64, 10)
			for i := range reads {
				readers.Go(func() {
					for item, err := range (Reader{Store: shared, Source: "shop"}).Items(ctx, eventstore.Cursor{}) {
						if err != nil {
							t.Error(err)
						}
						reads[i] = item.Position.Sequence
					}
				})
			}
			began := time.Now()
			readers.Wait()
			if slow := c.took > 100*time.Millisecond; slow == (store.refreshes > c.refreshes) {
				t.Errorf("%d refreshes of %s, want about %d", store.refreshes, c.took, c.refreshes)
			}
			for i, read := range reads {
				if behind := began.Add(time.Minute).Sub(time.UnixMicro(read)); behind > 3*time.Second {
					t.Errorf("reader %d is %s behind", i, behind)
				}
			}
		})
	}
}
