package failures

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/schemas"
)

// GetGroupFailure declares the operation.
var GetGroupFailure = operation.Declare[GroupFailureInput, GroupFailureOutput](operation.Operation{
	Method: http.MethodGet, Path: "/failures/groups/{group}/failure", ID: "getGroupFailure", Tag: "failures", Role: access.Viewer, Timeout: time.Minute,
	Summary: "Get the newest failure of a group, or another one with its neighbours",
	Text:    "The event has the error with its stack, and no body. If all failures of the group are resolved, the newest of these is meant.",
})

// GroupFailureInput names a failure of a group.
type GroupFailureInput struct {
	Group string `path:"group" maxLength:"20" doc:"Id of the group"`
	ID    string `query:"id" maxLength:"1024" doc:"Id of the event of the failure; none: the newest"`
}

// GroupFailureOutput has a failure of a group.
type GroupFailureOutput struct{ Body GroupFailure }

// GroupFailure is a failure with its place among the unresolved ones of its group.
type GroupFailure struct {
	Place int                `json:"place" doc:"1: the newest unresolved failure; 0: it is resolved"`
	Of    int                `json:"of" doc:"Number of unresolved failures"`
	Newer string             `json:"newer,omitempty" doc:"Event id of the next newer unresolved failure"`
	Older string             `json:"older,omitempty" doc:"Event id of the next older unresolved failure"`
	Event eventjson.Document `json:"event" doc:"The failure, without the body of its message"`
}

func (o operations) groupFailure(ctx context.Context, in *GroupFailureInput) (*GroupFailureOutput, error) {
	may, err := visible(ctx)
	if err != nil {
		return nil, err
	}
	kind, err := o.kind(ctx, in.Group, may)
	if err != nil {
		return nil, err
	}
	found, e, err := o.place(ctx, kind, in.ID, may)
	if err != nil {
		return nil, err
	}
	found.Event = eventjson.Of(ctx, o.System.DocumentFormat(), e)
	return &GroupFailureOutput{found}, nil
}

// kind returns the kind of the group with an id, without reading what became of its failures.
func (s Service) kind(ctx context.Context, id string, visible kql.Node) (history.Kind, error) {
	events, err := s.System.Store(ctx)
	if err != nil {
		return history.Kind{}, err
	}
	decisions, former, err := readDecisions(ctx, events, visible)
	if err != nil {
		return history.Kind{}, err
	}
	for kind := range statesOf(decisions, former) {
		if kind.ID() == id {
			return kind, nil
		}
	}
	found, err := s.failedKinds(ctx, []string{id}, visible)
	switch {
	case err != nil:
		return history.Kind{}, err
	case len(found) == 0:
		return history.Kind{}, &NotFoundError{id}
	}
	return found[0], nil
}

// place returns the failure of a group with an id, or its newest one, with its place among those
// that are unresolved.
func (s Service) place(ctx context.Context, kind history.Kind, id string, visible kql.Node) (found GroupFailure, e schemas.Event, err error) {
	of := kql.And{kind.Query(), visible}
	sequence := int64(math.MaxInt64) // of the wanted one
	if id != "" {
		if e, err = s.failure(ctx, kql.And{of, kql.FieldIs("event.id", id)}); err != nil {
			return found, e, err
		}
		if e.EventID == "" {
			return found, e, problem.NotFound(fmt.Sprintf("group %s has no failure with the event id %q", kind.ID(), id))
		}
		sequence = e.Sequence
	}
	failures, err := Unresolved(ctx, s.System)
	if err != nil {
		return found, e, err
	}
	newest, newer := "", 0 // of the unresolved ones
	for failure, err := range failures.Open(ctx, of) {
		if err != nil {
			return found, e, err
		}
		switch found.Of++; {
		case failure.EventID == id:
			found.Place = 1
		case failure.Sequence < sequence && id != "":
			found.Older = failure.EventID
		case id == "":
			newest, found.Older = failure.EventID, newest
		default:
			if newer++; newer == 1 {
				found.Newer = failure.EventID
			}
		}
	}
	if found.Place > 0 {
		found.Place += newer
	}
	if id != "" {
		return found, e, nil
	}
	if newest != "" {
		found.Place, of = 1, kql.And{of, kql.FieldIs("event.id", newest)}
	}
	if e, err = s.failure(ctx, of); err == nil && e.EventID == "" {
		err = problem.NotFound("the store has no failure of group " + kind.ID())
	}
	return found, e, err
}

// failure returns the newest event of a query; zero: none exists.
func (s Service) failure(ctx context.Context, node kql.Node) (schemas.Event, error) {
	events, err := s.System.Store(ctx)
	if err != nil {
		return schemas.Event{}, err
	}
	for e, err := range events.Events(ctx, eventstore.Selection{Query: node, Limit: 1, WithoutBody: true}) {
		return e, err
	}
	return schemas.Event{}, events.Check(ctx)
}
