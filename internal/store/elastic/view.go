package elastic

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/watershipmq/watership/schemas"
)

// view reads what a selection finds, page by page, from a point in time.
type view struct {
	store   *Store
	query   map[string]any
	sort    []any
	whole   bool              // with bodies
	page    int               // documents at once
	ahead   int               // documents that are planned at once
	planned []hit             // the next documents, so far only their sizes
	plans   bool              // what is read at once is planned: bodies may be large
	long    bool              // worth finding out whether they are
	pit     string            // the point in time; "" before the first page
	after   []json.RawMessage // sort values of the last document read
	last    bool              // nothing is behind what is planned
	ended   bool
	text    bytes.Buffer // the answer that is being read: the next takes its room
}

// newView sorts by time and sequence; what has no sequence is not ours and
// comes last. One document beyond the limit shows that the last one within it
// has no more ties (see there).
func (s *Store) newView(sel schemas.Selection) *view {
	v := &view{store: s, query: s.filter(sel), whole: !sel.WithoutBody, page: longestPage, ahead: longestPlan}
	v.long = sel.Limit == 0 || sel.Limit > longestPage
	v.plans = v.whole
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
		if v.whole && v.long {
			if err := v.measure(ctx); err != nil {
				return nil, err
			}
		}
	}
	if !v.plans {
		hits, err := v.search(ctx, v.page, map[string]any{"_source": v.source()})
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

func (v *view) source() any {
	if v.whole {
		return true
	}
	return map[string]any{"excludes": []string{"body"}}
}

func (v *view) advance(hits []hit) []hit {
	if len(hits) > 0 {
		v.after = hits[len(hits)-1].Sort
	}
	return hits
}
