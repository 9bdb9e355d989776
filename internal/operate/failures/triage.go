// Package failures finds unresolved failures and their groups, and has what operators do with
// them: they assign, mute, note, discard and resolve them.
package failures

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// Service does the work for one System.
type Service struct{ System *system.System }

// FailureGroup is a group of unresolved failures, with what operators decided about it.
type FailureGroup struct {
	history.Group
	State
}

// Groups are groups of unresolved failures.
type Groups struct {
	Groups []*FailureGroup
	Muted  int // groups that are left out, since they are muted
}

// List returns the groups of the unresolved failures that match a query, the most frequent
// first. Without withMuted it leaves out those that are muted. Decisions count as far as
// their events match visible.
func (s Service) List(ctx context.Context, node, visible kql.Node, withMuted bool) (Groups, error) {
	failures, states, err := s.read(ctx, visible)
	if err != nil {
		return Groups{}, err
	}
	all, err := failures.Groups(ctx, node)
	found := Groups{Groups: []*FailureGroup{}}
	for _, g := range all {
		if !withMuted && states.IsMuted(g.Kind) {
			found.Muted++
			continue
		}
		found.Groups = append(found.Groups, &FailureGroup{*g, states.Of(g.Kind)})
	}
	return found, err
}

// read returns the finder of failures and the states of groups.
func (s Service) read(ctx context.Context, visible kql.Node) (failures history.Failures, states States, err error) {
	if failures, err = Unresolved(ctx, s.System); err != nil {
		return failures, nil, err
	}
	events, err := s.System.Store(ctx)
	if err != nil {
		return failures, nil, err
	}
	states, err = Read(ctx, events, visible, time.Now())
	failures.Resolved = states.Resolutions()
	return failures, states, err
}

// NotFoundError reports that no group has an id.
type NotFoundError struct{ ID string }

// Error implements error.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no group of failures has the id %q", e.ID)
}

// Problem is the answer of the API.
func (e *NotFoundError) Problem() *problem.Problem {
	return &problem.Problem{
		Code: code.NotFound, Detail: e.Error(),
		Remedy: "GET /failures/groups?muted=true lists them.",
	}
}

// Find returns the group with an id. It may have no unresolved failures if operators decided
// about it before.
func (s Service) Find(ctx context.Context, id string, visible kql.Node) (*FailureGroup, error) {
	groups, err := s.FindAll(ctx, []string{id}, visible)
	if err != nil {
		return nil, err
	}
	return groups[0], nil
}

// FindAll returns the groups with some ids, as Find does, in their order. It reads the failures
// once.
func (s Service) FindAll(ctx context.Context, ids []string, visible kql.Node) ([]*FailureGroup, error) {
	failures, states, err := s.read(ctx, visible)
	if err != nil {
		return nil, err
	}
	found := map[string]*FailureGroup{}
	var kinds []history.Kind
	for kind, state := range states { // those that operators decided about
		if id := kind.ID(); slices.Contains(ids, id) {
			found[id] = &FailureGroup{history.Group{ID: id, Kind: kind, Query: kind.Query().String()}, *state}
			kinds = append(kinds, kind)
		}
	}
	others := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return found[id] != nil })
	failed, err := s.failedKinds(ctx, others, visible)
	if err != nil {
		return nil, err
	}
	var open []*history.Group
	switch kinds = append(kinds, failed...); {
	case len(kinds) > maxKinds:
		open, err = failures.Groups(ctx, visible)
	case len(kinds) > 0:
		open, err = failures.GroupsOf(ctx, kinds, visible)
	}
	if err != nil {
		return nil, err
	}
	for _, g := range open {
		found[g.ID] = &FailureGroup{*g, states.Of(g.Kind)}
	}
	groups := make([]*FailureGroup, len(ids))
	for i, id := range ids {
		if groups[i] = found[id]; groups[i] == nil {
			return nil, &NotFoundError{id}
		}
	}
	return groups, nil
}

// failedKinds returns the kinds of the groups with some ids that have failures. An id is a hash of its kind,
// and so failures are read until all are found, but not what became of them. Groups that people ask about have
// failed lately as a rule, so that the newest failures come first.
func (s Service) failedKinds(ctx context.Context, ids []string, visible kql.Node) (kinds []history.Kind, err error) {
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	events, err := s.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	sel, now := eventstore.Selection{Query: kql.And{history.GivenUp(), visible}}, time.Now()
	for _, age := range []time.Duration{time.Hour, 6 * time.Hour, 36 * time.Hour, 0} {
		if sel.After = (eventstore.Cursor{}); age > 0 {
			sel.After.Sequence = now.Add(-age).UnixMicro()
		}
		found, err := addKinds(events.Summaries(ctx, sel), wanted)
		if kinds = append(kinds, found...); err != nil || len(wanted) == 0 {
			return kinds, err
		}
		sel.UpTo = sel.After.Sequence - 1 // a cursor without an id is before all events of its sequence
	}
	return kinds, nil
}

// addKinds returns the kinds of failures whose ids are wanted, and removes them from wanted.
func addKinds(of iter.Seq2[eventstore.EventSummary, error], wanted map[string]bool) (kinds []history.Kind, err error) {
	seen := map[history.Kind]bool{}
	for failure, err := range of {
		if err != nil {
			return nil, err
		}
		kind := history.KindOf(failure)
		if seen[kind] {
			continue
		}
		seen[kind] = true
		id := kind.ID()
		if !wanted[id] {
			continue
		}
		kinds = append(kinds, kind)
		if delete(wanted, id); len(wanted) == 0 {
			break
		}
	}
	return kinds, nil
}

// GroupDecided is the result of a decision about a group.
type GroupDecided struct {
	Unchanged bool `json:"unchanged" doc:"The group was in this state before: nothing was recorded"`
	Missing   int  `json:"missing" doc:"Events that the store does not have yet"`
}

// Decide records a change of a group, and waits until the store has its event. After ten
// seconds it is missing: probably no server stores events. A change that makes no difference is
// not recorded.
func (s Service) Decide(ctx context.Context, g *FailureGroup, change Change, operator string) (GroupDecided, error) {
	if err := change.Check(time.Now()); err != nil {
		return GroupDecided{}, system.InputError{Err: err}
	}
	if !change.Changes(g.State) {
		return GroupDecided{Unchanged: true}, nil
	}
	missing, err := s.record(ctx, []schemas.State{change.Event(g.Kind, operator, time.Now())})
	return GroupDecided{Missing: missing}, err
}

// record publishes `triaged` events, and waits until the store has them.
func (s Service) record(ctx context.Context, states []schemas.State) (missing int, err error) {
	publisher, err := s.System.Publisher(ctx)
	if err != nil {
		return 0, err
	}
	var ids []string
	for _, state := range states {
		err := publisher.Publish(ctx, s.System.Sign(rabbit.Message{
			Exchange: s.System.Topology().Events(), RoutingKey: string(schemas.Triaged), Publishing: wire.DefaultFrameMax.Wrap(schemas.Envelope{}, state),
		}))
		if err != nil {
			return 0, fmt.Errorf("publishing the %s event: %w", schemas.Triaged, err)
		}
		ids = append(ids, state.EventID)
	}
	events, err := s.System.Store(ctx)
	if err != nil {
		return 0, err
	}
	return history.AwaitStored(ctx, events, ids)
}
