package history

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// past finds out whether a group came back, from its failures in their order: all failures
// before one of them were resolved before it.
type past struct {
	any      bool
	until    int64 // sequence at which all failures so far were resolved
	cameBack bool
	trend    trend
}

func (p *past) add(f failure) {
	p.trend.add(f.EventSummary)
	p.cameBack = p.cameBack || p.any && p.until < f.Sequence
	p.any, p.until = true, max(p.until, f.at)
}

// setRegressed sets which groups with open failures have some that are newer than their resolution.
// pasts have the failures of the groups that match a query; others count, too.
func (f Failures) setRegressed(ctx context.Context, groups map[Kind]*Group, pasts map[Kind]*past, within kql.Node) error {
	undecided := map[Kind]*past{}
	for kind, g := range groups {
		switch resolved := f.Resolved[kind]; {
		case resolved > 0:
			g.Regressed = g.UpTo > resolved
		case isAll(within):
			g.Regressed = pasts[kind].cameBack
		default:
			undecided[kind] = &past{}
		}
	}
	if len(undecided) == 0 {
		return nil
	}
	ofKinds := func(yield func(eventstore.EventSummary, error) bool) {
		for summary, err := range f.Store.Summaries(ctx, eventstore.Selection{Query: kql.And{GivenUp(), errorGroups(undecided)}, UpTo: f.UpTo}) {
			if (err != nil || undecided[KindOf(summary)] != nil) && !yield(summary, err) {
				return
			}
		}
	}
	for failure, err := range f.withResolutions(ctx, ofKinds) {
		if err != nil {
			return err
		}
		kind := KindOf(failure.EventSummary)
		whole := undecided[kind]
		if whole == nil {
			continue
		}
		whole.add(failure)
		pasts[kind].trend.first = whole.trend.first // which tells whether the group is new
		if whole.cameBack || !failure.Resolved() {  // which keeps all later ones from coming back
			groups[kind].Regressed = whole.cameBack
			if delete(undecided, kind); len(undecided) == 0 {
				break
			}
		}
	}
	return nil
}

// errorGroups matches the failures with the error groups of some kinds. Failures of other kinds may have them, too.
func errorGroups[V any](kinds map[Kind]V) kql.Node {
	groups := map[string]bool{}
	for kind := range kinds {
		groups[kind.Group] = true
	}
	if len(groups) > maxLookup {
		return kql.All{}
	}
	var either kql.Or
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		if group == "" {
			either = append(either, kql.Not{Node: kql.Exists{Field: kql.Pattern{"watership.error_group"}}})
			continue
		}
		either = append(either, kql.FieldIs("watership.error_group", group))
	}
	return either
}

func isAll(node kql.Node) bool {
	switch n := node.(type) {
	case nil, kql.All:
		return true
	case kql.And:
		for _, part := range n {
			if !isAll(part) {
				return false
			}
		}
		return true
	}
	return false
}

// IsFirst reports whether the failures that match a query have none before a sequence.
func (f Failures) IsFirst(ctx context.Context, node kql.Node, sequence int64) (bool, error) {
	earlier := eventstore.Selection{Query: kql.And{node, GivenUp()}, UpTo: sequence - 1, Limit: 1}
	hadSome, err := hasAny(f.Store.Summaries(ctx, earlier))
	return !hadSome, err
}

// CameBack reports whether a group came back with a failure, by its sequence: an operator had
// resolved the group and no failure since was open, or all earlier ones were resolved. node
// selects the failures of the group.
func (f Failures) CameBack(ctx context.Context, k Kind, node kql.Node, sequence int64) (bool, error) {
	begin := int64(0)
	if resolved := f.Resolved[k]; resolved > 0 && resolved < sequence {
		begin = resolved + 1
	} else if isFirst, err := f.IsFirst(ctx, node, sequence); err != nil || isFirst {
		return false, err
	}
	f.UpTo = sequence - 1
	// An open group has most often failed lately, so that few failures tell.
	for _, age := range []time.Duration{time.Hour, 24 * time.Hour, 0} {
		after := eventstore.Cursor{Sequence: begin}
		if age > 0 {
			after.Sequence = max(begin, sequence-age.Microseconds())
		}
		if isOpen, err := hasAny(f.OpenAfter(ctx, node, after)); err != nil || isOpen {
			return false, err
		}
	}
	return true, nil
}

// FirstBack returns the sequence of the first failure with which a group came back, of those
// after a sequence and up to f.UpTo; 0: with none of them.
func (f Failures) FirstBack(ctx context.Context, k Kind, node kql.Node, after int64) (int64, error) {
	var since past
	for failure, err := range f.all(ctx, node, eventstore.Cursor{Sequence: after + 1}) {
		if err != nil {
			return 0, err
		}
		if !since.any || since.until < failure.Sequence {
			if cameBack, err := f.CameBack(ctx, k, node, failure.Sequence); err != nil || cameBack {
				return failure.Sequence, err
			}
		}
		if since.add(failure); !failure.Resolved() { // it keeps all later ones from coming back
			break
		}
	}
	return 0, nil
}

// hasAny reports whether a sequence has an element.
func hasAny(list iter.Seq2[eventstore.EventSummary, error]) (bool, error) {
	for _, err := range list {
		return err == nil, err
	}
	return false, nil
}
