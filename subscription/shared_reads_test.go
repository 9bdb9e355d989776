package subscription

import (
	"context"
	"encoding/json"
	"testing"

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
	for name, store := range map[string]eventstore.WatermarkStore{"alone": &claimed{}, "shared": &sharedReads{Store: &claimed{}}} {
		if complete, err := eventstore.Complete(t.Context(), store, "shop"); complete != 98 || err != nil {
			t.Errorf("%s: complete up to %d, %v; want 98", name, complete, err)
		}
	}
}
