package failures

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// Resolvable are unresolved failures that can be resolved together.
type Resolvable struct {
	Failures []eventstore.EventSummary
	Groups   []ResolvableGroup // the largest first
	UpTo     int64             // highest sequence of the open failures of the groups, those that do not match, too
}

// ResolvableGroup counts the failures of a group that can be resolved.
type ResolvableGroup struct {
	ID string `json:"id"`
	history.Kind
	Count int `json:"count"`

	upTo int64 // sequence of the newest open failure, of those that match and the others
}

// ResolveResult is the result of a Resolve.
type ResolveResult struct {
	Failures int      // that were discarded
	Resolved []string // ids of groups that have no other failures
	Open     []string // ids of groups that have
	Queues   []string // of the failures
	Missing  int      // events that the store does not have yet
}

// Selected selects unresolved failures, to resolve their groups. All criteria must match.
type Selected struct {
	Query, Visible kql.Node
	Groups, IDs    []string // empty: all
	UpTo           int64    // failures after this sequence have not come yet; 0: no limit
}

// Resolvable finds the selected failures.
func (s Service) Resolvable(ctx context.Context, sel Selected) (Resolvable, error) {
	node := sel.Query
	if len(sel.Groups) > 0 {
		wanted, err := s.FindAll(ctx, sel.Groups, sel.Visible)
		if err != nil {
			return Resolvable{}, err
		}
		var kinds kql.Or
		for _, g := range wanted {
			kinds = append(kinds, g.Kind.Query())
		}
		node = kql.And{node, kinds}
	}
	if sel.UpTo > 0 {
		node = kql.And{node, history.UpTo(sel.UpTo)}
	}
	failures, err := Unresolved(ctx, s.System)
	if err != nil {
		return Resolvable{}, err
	}
	found := Resolvable{Groups: []ResolvableGroup{}}
	if found.Failures, err = failures.OpenByID(ctx, node, sel.IDs); err != nil {
		return found, err
	}
	places := map[history.Kind]int{}
	for _, f := range found.Failures {
		kind := history.KindOf(f)
		at, known := places[kind]
		if !known {
			at = len(found.Groups)
			places[kind] = at
			found.Groups = append(found.Groups, ResolvableGroup{ID: kind.ID(), Kind: kind})
		}
		found.Groups[at].Count++
	}
	err = eachOpen(ctx, failures, found.Groups, func(g *ResolvableGroup, f eventstore.EventSummary) {
		if sel.UpTo == 0 || f.Sequence <= sel.UpTo {
			g.upTo = max(g.upTo, f.Sequence)
			found.UpTo = max(found.UpTo, f.Sequence)
		}
	})
	if err != nil {
		return found, err
	}
	slices.SortFunc(found.Groups, func(a, b ResolvableGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.ID, b.ID))
	})
	return found, nil
}

// Resolve discards the failures and then records that their groups are resolved, except for
// groups that have other failures up to the newest one that was there when they were found. A
// later failure brings its group back.
func (s Service) Resolve(ctx context.Context, found Resolvable, d reason.Decision) (ResolveResult, error) {
	change := Change{Decision: Resolved, Reason: d.Reason}
	if err := change.Check(time.Now()); err != nil {
		return ResolveResult{}, system.InputError{Err: err}
	}
	ids := history.EventIDs(found.Failures)
	done, err := discardAll(ctx, s.System, ids, d)
	result := ResolveResult{Failures: done.Failures, Resolved: []string{}, Open: []string{}, Queues: done.Queues}
	if err != nil {
		return result, err
	}
	if result.Missing, err = awaitDiscarded(ctx, s.System, ids); err != nil {
		return result, err
	}
	failures, err := Unresolved(ctx, s.System)
	if err != nil {
		return result, err
	}
	discarded := map[string]bool{}
	for _, id := range ids {
		discarded[id] = true
	}
	hasOthers := map[string]bool{} // by id of a group
	err = eachOpen(ctx, failures, found.Groups, func(g *ResolvableGroup, f eventstore.EventSummary) {
		hasOthers[g.ID] = hasOthers[g.ID] || !discarded[f.EventID] && f.Sequence <= g.upTo
	})
	if err != nil {
		return result, err
	}
	var events []schemas.State
	for _, g := range found.Groups {
		if hasOthers[g.ID] {
			result.Open = append(result.Open, g.ID)
			continue
		}
		change.UpTo = g.upTo
		events = append(events, change.Event(g.Kind, d.Operator, time.Now()))
		result.Resolved = append(result.Resolved, g.ID)
	}
	missing, err := s.record(ctx, events)
	result.Missing += missing
	return result, err
}

// maxKinds bounds the groups of one query. More are read with the open failures of all groups.
const maxKinds = 100

// eachOpen calls do for each open failure of some groups.
func eachOpen(ctx context.Context, failures history.Failures, groups []ResolvableGroup, do func(*ResolvableGroup, eventstore.EventSummary)) error {
	places, kinds := map[history.Kind]*ResolvableGroup{}, kql.Or{}
	for i := range groups {
		g := &groups[i]
		places[g.Kind], kinds = g, append(kinds, g.Kind.Query())
	}
	node := kql.Node(kinds)
	switch {
	case len(kinds) == 0:
		return nil
	case len(kinds) > maxKinds:
		node = kql.All{}
	}
	for f, err := range failures.Open(ctx, node) {
		if err != nil {
			return err
		}
		if g := places[history.KindOf(f)]; g != nil {
			do(g, f)
		}
	}
	return nil
}
