package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// Events reads what a selection finds, as it is when the reading begins:
// events that are created meanwhile are not among them, except when a reader
// pauses for so long (5 minutes between two pages of up to 1,000) that
// Elasticsearch forgets what it was reading. UpTo excludes them then, too.
//
// An event that repeats the one before it in id and sequence is left out: a
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
		for h, err := range v.documents(ctx, sel.Limit) {
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

// documents gives each document once. Those that repeat one another are
// neighbours, since they are equal in all that they are sorted by.
func (v *view) documents(ctx context.Context, limit int) iter.Seq2[hit, error] {
	page := longestPage
	if limit > 0 {
		page = min(limit, longestPage)
	}
	return func(yield func(hit, error) bool) {
		var last hit
		for {
			hits, err := v.next(ctx, page)
			if err != nil {
				yield(hit{}, err)
				return
			}
			if len(hits) == 0 {
				return
			}
			for _, h := range hits {
				if h.repeats(last) {
					continue
				}
				last = h
				if !yield(h, nil) {
					return
				}
			}
		}
	}
}

// repeats compares the sort values but for the last, which is the place in the
// shard. Without an id, the value before it, a document is no event of ours.
func (h hit) repeats(before hit) bool {
	n := len(h.Sort) - 1
	return len(before.Sort) == len(h.Sort) &&
		slices.EqualFunc(h.Sort[:n], before.Sort[:n], func(a, b json.RawMessage) bool { return string(a) == string(b) }) &&
		string(h.Sort[n-1]) != "null"
}

func (h hit) event() (schemas.Event, error) {
	event, err := schemas.ParseDocument(h.Source)
	if err != nil {
		return schemas.Event{}, fmt.Errorf("document %q of index %s: %w", h.ID, h.Index, err)
	}
	return event, nil
}
