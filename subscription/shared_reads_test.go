package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/watershipmq/watership/eventstore"
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
