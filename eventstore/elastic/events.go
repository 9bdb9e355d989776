package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Events reads the visible events of a selection (see Refresh) from a snapshot: events
// that are created during the reading are not included. Elasticsearch drops the
// snapshot of a reader that pauses for 5 minutes between two pages of up to 2,000. The
// rest is then read from a new one, unless UpTo excludes later events.
//
// An event with the same id and sequence as the one before is left out: a bulk request
// that was repeated after a rollover wrote it twice. It does not count for Limit.
//
// A *eventstore.Error ends the reading. Any other error is about a single
// document that is not a valid event, and names it; the caller can go on reading.
func (r *reader) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		p, err := r.newPITReader(ctx, sel)
		if err != nil {
			yield(schemas.Event{}, err)
			return
		}
		defer func() { p.close(ctx) }()
		remaining := sel.Limit
		for h, err := range p.documents(ctx) {
			if err != nil {
				yield(schemas.Event{}, err)
				return
			}
			if !yield(h.event()) {
				return
			}
			if remaining--; remaining == 0 {
				return
			}
		}
	}
}

// documents yields each document once, in order.
func (p *pitReader) documents(ctx context.Context) iter.Seq2[hit, error] {
	return func(yield func(hit, error) bool) {
		var tied ties
		for !p.ended {
			hits, err := p.next(ctx)
			if err != nil {
				yield(hit{}, err)
				return
			}
			for _, h := range hits {
				if !tied.add(h) {
					if !tied.yieldSorted(yield) {
						return
					}
					tied = append(tied[:0], h)
				}
			}
		}
		tied.yieldSorted(yield)
	}
}

// ties are documents with equal sort values. Sorting by id as well would take
// Elasticsearch three times as long for a page. They are few: mostly one, or one and
// its duplicate.
type ties []hit

// add returns false for a document with other sort values. It also splits very many
// ties: these are documents of other programs, which have no sequence at all.
func (t *ties) add(h hit) bool {
	if len(*t) >= maxPage || len(*t) > 0 && !h.tiedWith((*t)[0]) {
		return false
	}
	*t = append(*t, h)
	return true
}

// tiedWith compares the sort values without the last one, _shard_doc.
func (h hit) tiedWith(other hit) bool {
	n := len(h.Sort) - 1
	return slices.EqualFunc(h.Sort[:n], other.Sort[:n], func(a, b json.RawMessage) bool { return string(a) == string(b) })
}

func (t ties) yieldSorted(yield func(hit, error) bool) bool {
	slices.SortStableFunc(t, func(a, b hit) int { return strings.Compare(a.ID, b.ID) })
	for _, h := range slices.CompactFunc(t, func(a, b hit) bool { return a.ID == b.ID }) {
		if !yield(h, nil) {
			return false
		}
	}
	return true
}

func (h hit) event() (schemas.Event, error) {
	if h.Event == nil {
		return schemas.Event{}, fmt.Errorf("document %q of index %s came without its source", h.ID, h.Index)
	}
	if h.Err != nil {
		return schemas.Event{}, fmt.Errorf("document %q of index %s: %w", h.ID, h.Index, h.Err)
	}
	return *h.Event, nil
}
