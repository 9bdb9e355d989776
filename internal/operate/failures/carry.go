package failures

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// Bounds of reading groups that another version of Watership made.
const (
	maxFormer   = 100 // groups, those with the newest decisions
	maxExamined = 200 // failures of each, the newest
)

// successor is a group that failures of a former group would have now.
type successor struct {
	history.Kind
	first int64 // sequence of the first of the failures that were read
}

// successors returns the groups of this version for each group that another version made and
// that operators decided about.
//
// Documents keep the group that they got, and failures that arrive now get another one. For the
// latter, decisions hold as well: those made when there was such a failure in the former group.
// Other failures that the former group would have taken in are no part of that.
func successors(ctx context.Context, store Store, within kql.Node, decisions []schemas.Event) (map[history.Kind][]successor, error) {
	found := map[history.Kind][]successor{}
	for _, decision := range slices.Backward(decisions) {
		kind := kindOf(decision)
		if _, known := found[kind]; known || len(found) == maxFormer || !(schemas.Failure{Group: kind.Group}).HasFormerGroup(kind.Queue) {
			continue
		}
		found[kind] = nil
		selection := eventstore.Selection{
			Query: kql.And{within, kind.Query(), history.UpTo(decision.Sequence)}, Limit: maxExamined, WithoutBody: true,
		}
		for failure, err := range storeread.Readable(store.Events(ctx, selection)) {
			if err != nil {
				return nil, err
			}
			found[kind] = addFailure(found[kind], kind, failure)
		}
	}
	return found, nil
}

// addFailure adds the group that a failure of a former group would have now.
func addFailure(list []successor, former history.Kind, failure schemas.Event) []successor {
	now := former
	failure.Failure.Group = ""
	if now.Group = failure.ErrorGroup(); now == former {
		return list
	}
	i := slices.IndexFunc(list, func(s successor) bool { return s.Kind == now })
	if i < 0 {
		return append(list, successor{now, failure.Sequence})
	}
	list[i].first = min(list[i].first, failure.Sequence)
	return list
}

// statesOf returns the states that follow from decisions, also of successors.
func statesOf(decisions []schemas.Event, successors map[history.Kind][]successor) States {
	states := States{}
	for _, decision := range decisions {
		states.Apply(decision)
		for _, kind := range carriedTo(decision, successors) {
			states.applyTo(kind, decision)
		}
	}
	return states
}

// carriedTo returns the successors about which a decision is, too.
func carriedTo(decision schemas.Event, successors map[history.Kind][]successor) (kinds []history.Kind) {
	for _, s := range successors[kindOf(decision)] {
		if s.first <= decision.Sequence {
			kinds = append(kinds, s.Kind)
		}
	}
	return kinds
}
