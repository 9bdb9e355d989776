package elastic

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// idsAtOnce bounds how many ids one search asks for. It leaves room for ten
// documents of each, and there is at most one in an index.
const idsAtOnce = 1000

// Find says which of these ids are in the streams, and where: any one of the
// places where an id is in several. Create sees only the index that is written
// to now, so this is for messages that the broker delivers again, whose
// document may have been created before a rollover.
//
// It refreshes, and then searches: so it sees everything that was created
// before it was called, needs no list of the indices behind a stream, and costs
// the same however many there are. A document of which it finds nothing may
// still be on its way in a bulk of somebody else.
func (s *Store) Find(ctx context.Context, ids []string) (map[string]schemas.Stored, error) {
	found := make(map[string]schemas.Stored, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	for some := range slices.Chunk(ids, idsAtOnce) {
		answer, err := s.search(ctx, "finding documents by id", s.both(), map[string]any{
			"size":             10 * idsAtOnce,
			"_source":          false,
			"track_total_hits": false,
			"query":            map[string]any{"ids": map[string]any{"values": some}},
		})
		if err != nil {
			return nil, err
		}
		for _, h := range answer.Hits {
			found[h.ID] = schemas.Stored{Index: h.Index, ID: h.ID}
		}
	}
	return found, nil
}
