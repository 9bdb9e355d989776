package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/watershipmq/watership/schemas"
)

const (
	// longestPlan is the most that one search may give
	// (index.max_result_window).
	longestPlan = 10_000

	// longestPage is how many documents are read at once.
	longestPage = 2000

	// largestRun is how many bytes of bodies are read at once, so that a
	// thousand messages of 16 MiB in a row cannot exhaust the memory of
	// Elasticsearch or ours. One body may be larger.
	largestRun = 8 << 20

	bodySize = "messaging.message.body.size"
)

// view reads what a selection finds, page by page, from a point in time.
type view struct {
	store   *Store
	query   map[string]any
	sort    []any
	whole   bool              // with bodies
	page    int               // documents at once
	ahead   int               // documents that are planned at once
	pit     string            // the point in time; "" before the first page
	after   []json.RawMessage // sort values of the last document read
	planned []hit             // the next documents, so far only their sizes
	last    bool              // nothing is behind what is planned
	ended   bool
	text    bytes.Buffer // the answer that is being read: the next takes its room
}

// newView sorts by time and sequence; what has no sequence is not ours and
// comes last. One document beyond the limit shows that the last one within it
// has no more ties (see there).
func (s *Store) newView(sel schemas.Selection) *view {
	v := &view{store: s, query: s.filter(sel), whole: !sel.WithoutBody, page: longestPage, ahead: longestPlan}
	if sel.Limit > 0 {
		v.page, v.ahead = min(sel.Limit+1, longestPage), min(sel.Limit+1, longestPlan)
	}
	switch sel.Order {
	case schemas.BySequence:
		v.sort = []any{by("event.sequence", "asc", "long")}
	default:
		v.sort = []any{by("@timestamp", "desc", "date"), by("event.sequence", "desc", "long")}
	}
	v.sort = append(v.sort, "_shard_doc") // tells ties apart, within a point in time
	return v
}

func by(field, order, kind string) map[string]any {
	return map[string]any{field: map[string]any{"order": order, "missing": "_last", "unmapped_type": kind}}
}

// next reads the next documents. A point in time that is gone is opened again
// at the last document read, so a reader may take hours; it then also gives
// what was written meanwhile and belongs behind.
func (v *view) next(ctx context.Context) ([]hit, error) {
	hits, err := v.read(ctx)
	if !says(err, "search_context_missing_exception") {
		return hits, err
	}
	v.pit, v.planned, v.last = "", nil, false
	if len(v.after) > 0 {
		// The place in the shard meant something to the old one only. From
		// before the first place all ties are read again; those that are held
		// already count as repeated.
		v.after[len(v.after)-1] = json.RawMessage("-1")
	}
	return v.read(ctx)
}

func (v *view) read(ctx context.Context) ([]hit, error) {
	if v.pit == "" {
		if err := v.open(ctx); err != nil {
			return nil, err
		}
	}
	if !v.whole {
		hits, err := v.search(ctx, v.page, map[string]any{"_source": map[string]any{"excludes": []string{"body"}}})
		v.ended = len(hits) < v.page
		return v.advance(hits), err
	}
	if err := v.plan(ctx); err != nil {
		return nil, err
	}
	hits, err := v.run(ctx)
	v.ended = v.last && len(v.planned) == 0
	return v.advance(hits), err
}

func (v *view) advance(hits []hit) []hit {
	if len(hits) > 0 {
		v.after = hits[len(hits)-1].Sort
	}
	return hits
}

// plan looks ahead for the sizes of the next documents, without loading any: a
// fraction of the work of loading them, and less the more are asked for at once.
func (v *view) plan(ctx context.Context) error {
	if len(v.planned) > 0 {
		return nil
	}
	var err error
	v.planned, err = v.search(ctx, v.ahead, map[string]any{
		"_source": false, "stored_fields": "_none_", "docvalue_fields": []string{bodySize},
	})
	v.last = len(v.planned) < v.ahead
	return err
}

// run reads as many of the planned documents as may be read at once.
func (v *view) run(ctx context.Context) ([]hit, error) {
	length := runLength(v.planned)
	if length == 0 {
		return nil, nil
	}
	hits, err := v.search(ctx, length, map[string]any{"_source": true})
	if err != nil {
		return nil, err
	}
	if len(hits) != length {
		return nil, v.store.nonsense("reading events", fmt.Sprintf("gave %d documents where it had %d", len(hits), length))
	}
	v.planned = v.planned[length:]
	return hits, nil
}

// runLength is how many of the documents may be read at once.
func runLength(planned []hit) int {
	var size int64
	for i, h := range planned[:min(len(planned), longestPage)] {
		size += h.BodySize
		if size > largestRun && i > 0 {
			return i
		}
	}
	return min(len(planned), longestPage)
}
