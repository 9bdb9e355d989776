package elastic

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/eventstore"
)

// idsPerSearch limits the ids of one search. It leaves room for ten documents of each
// id; an index has at most one.
const idsPerSearch = 1000

// Find returns the ids that are in the streams, each with one of its indices. Create
// checks only the write index. Find is for redelivered messages, whose document may
// have been created before a rollover.
//
// It refreshes and then searches. So it finds everything that was created before, does
// not list the backing indices of a stream, and costs the same for any number of them.
// A document that it does not find can still be in a running bulk request of another
// process.
func (r *reader) Find(ctx context.Context, ids []string) (map[string]eventstore.DocumentID, error) {
	found := make(map[string]eventstore.DocumentID, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	if err := r.Refresh(ctx); err != nil {
		return nil, err
	}
	for chunk := range slices.Chunk(ids, idsPerSearch) {
		response, err := r.search(ctx, "finding documents by id", r.dataStreams(), map[string]any{
			"size":             10 * idsPerSearch,
			"_source":          false,
			"track_total_hits": false,
			"query":            map[string]any{"ids": map[string]any{"values": chunk}},
		})
		if err != nil {
			return nil, err
		}
		for _, h := range response.Hits {
			found[h.ID] = eventstore.DocumentID{Index: h.Index, ID: h.ID}
		}
	}
	return found, nil
}
