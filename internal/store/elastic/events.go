package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/watershipmq/watership/schemas"
)

// Events reads what a selection finds, as it is when the reading begins:
// events that are created meanwhile are not among them, except when a reader
// pauses for so long (5 minutes between two pages of up to 2,000) that
// Elasticsearch forgets what it was reading. UpTo excludes them then, too.
//
// An event that has the id and the sequence of one before it is left out: a
// bulk that was sent again across a rollover wrote it twice. Limit is of what
// is left.
//
// An error that is a *schemas.StoreError ends the reading. Any other is about a
// single document that cannot be read as an event, and names it; the reading
// goes on if the caller does.
//
// Only what is visible by now is read (see Refresh).
func (s *Store) Events(ctx context.Context, sel schemas.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		v := s.newView(sel)
		defer func() { v.close(ctx) }()
		left := sel.Limit
		for h, err := range v.documents(ctx) {
			if err != nil {
				yield(schemas.Event{}, err)
				return
			}
			if !yield(h.event()) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// documents gives each document once and in order.
func (v *view) documents(ctx context.Context) iter.Seq2[hit, error] {
	return func(yield func(hit, error) bool) {
		var held ties
		for !v.ended {
			hits, err := v.next(ctx)
			if err != nil {
				yield(hit{}, err)
				return
			}
			for _, h := range hits {
				if !held.take(h) {
					if !held.give(yield) {
						return
					}
					held = append(held[:0], h)
				}
			}
		}
		held.give(yield)
	}
}

// ties are documents that are equal in all that Elasticsearch sorted them by.
// It could sort them by their ids as well, but takes three times as long for a
// page then. They are few: mostly one, or one and its repetition.
type ties []hit

// take says no to a document that is none of them. It says no, too, to the
// rest of very many: then it is no event of ours, but has no sequence at all.
func (t *ties) take(h hit) bool {
	if len(*t) >= longestPage || len(*t) > 0 && !h.tiedWith((*t)[0]) {
		return false
	}
	*t = append(*t, h)
	return true
}

// tiedWith compares the sort values but for the last, the place in the shard.
func (h hit) tiedWith(other hit) bool {
	n := len(h.Sort) - 1
	return slices.EqualFunc(h.Sort[:n], other.Sort[:n], func(a, b json.RawMessage) bool { return string(a) == string(b) })
}

func (t ties) give(yield func(hit, error) bool) bool {
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
