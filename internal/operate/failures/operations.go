package failures

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// The operations on groups of failures.
var (
	GroupFailures = operation.Declare[GroupsInput, GroupsOutput](operation.Operation{
		Method: http.MethodGet, Path: "/failures/groups", ID: "groupFailures", Tag: "failures", Role: access.Viewer, Timeout: time.Minute,
		Summary: "Group unresolved failures by queue and error",
		Text:    "Each group has what operators decided about it. Groups that are muted are left out, unless muted is set.",
	})
	GetFailureGroup = operation.Declare[GroupInput, GroupOutput](operation.Operation{
		Method: http.MethodGet, Path: "/failures/groups/{group}", ID: "getFailureGroup", Tag: "failures", Role: access.Viewer, Timeout: time.Minute,
		Summary: "Get a group of failures",
		Text:    "A group about which an operator decided is found without unresolved failures, too.",
	})
	TriageFailureGroup = operation.Declare[TriageInput, TriageOutput](operation.Operation{
		Method: http.MethodPost, Path: "/failures/groups/{group}/triage", ID: "triageFailureGroup", Tag: "failures", Role: access.Operator, Timeout: time.Minute,
		Summary: "Assign, mute or note a group of failures",
		Text:    "The decision is an event in the store, with the caller and the time.",
	})
	ResolveFailures = operation.Declare[ResolveInput, ResolveOutput](operation.Operation{
		Method: http.MethodPost, Path: "/failures/resolve", ID: "resolveFailures", Tag: "failures", Role: access.Operator, Timeout: 2 * time.Minute,
		Summary: "Resolve groups of failures: discard their failures, with a reason",
		Text:    "Nothing is deleted, as for discardFailures. A group that fails again after that has regressed. A group stays open if some of its failures do not match.",
	})
	GroupFailuresBy = operation.Declare[ByInput, ByOutput](operation.Operation{
		Method: http.MethodGet, Path: "/failures/by", ID: "groupFailuresBy", Tag: "failures", Role: access.Viewer, Timeout: time.Minute,
		Summary: "Group unresolved failures by any fields",
	})
)

// operations are the functions of the operations.
type operations struct{ Service }

// Implement adds the operations on failures to a set.
func Implement(set *operation.Set, sys *system.System) {
	o := operations{Service{sys}}
	operation.Implement(set, GroupFailures, o.list)
	operation.Implement(set, GetFailureGroup, o.get)
	operation.Implement(set, GetGroupFailure, o.groupFailure)
	operation.Implement(set, GetGroupHistory, o.history)
	operation.Implement(set, TriageFailureGroup, o.triage)
	operation.Implement(set, ResolveFailures, o.resolve)
	operation.Implement(set, GroupFailuresBy, o.listBy)
	operation.Implement(set, ExplainFailures, o.why)
	operation.Implement(set, ListFailures, o.listFailures)
	operation.Implement(set, DiscardFailures, o.discardFailures)
}

// GroupsInput asks for a page of groups.
type GroupsInput struct {
	eventfilter.QueryFilter
	Sort   string `query:"sort" enum:"count,last" default:"count" doc:"The groups with the most failures first, or those with the newest"`
	Muted  bool   `query:"muted" doc:"List groups that are muted, too"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of groups"`
	Cursor string `query:"cursor" maxLength:"20" doc:"Cursor of the page before, for the same query"`
}

// GroupsOutput has a page of groups.
type GroupsOutput struct{ Body GroupPage }

// GroupPage is a page of groups of failures.
type GroupPage struct {
	Groups   []FailureGroup `json:"groups" nullable:"false"`
	Failures int            `json:"failures" doc:"Number of failures in all groups"`
	Queues   map[string]int `json:"queues" nullable:"false" doc:"The same, by queue"`
	Muted    int            `json:"muted" doc:"Number of groups that are left out, since they are muted"`
	Cursor   string         `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`
}

// visible returns a query for the events that the caller may see.
func visible(ctx context.Context) (kql.Node, error) {
	return access.FromContext(ctx).Restrict(kql.All{})
}

func (o operations) list(ctx context.Context, in *GroupsInput) (*GroupsOutput, error) {
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	begin, err := operation.ParseOffset(in.Cursor)
	if err != nil {
		return nil, err
	}
	may, err := visible(ctx)
	if err != nil {
		return nil, err
	}
	found, err := o.List(ctx, sel.Query, may, in.Muted)
	if err == nil && len(found.Groups) == 0 {
		err = o.System.CheckStore(ctx)
	}
	if err != nil {
		return nil, err
	}
	if in.Sort == "last" {
		slices.SortStableFunc(found.Groups, func(a, b *FailureGroup) int { return b.Last.Compare(a.Last) })
	}
	page := GroupPage{Groups: []FailureGroup{}, Queues: map[string]int{}, Muted: found.Muted}
	for _, g := range found.Groups {
		page.Failures += g.Count
		page.Queues[g.Queue] += g.Count
	}
	shown, next := operation.PageAt(found.Groups, begin, in.Limit)
	for _, g := range shown {
		page.Groups = append(page.Groups, *g)
	}
	page.Cursor = next
	return &GroupsOutput{page}, nil
}

// GroupInput names a group.
type GroupInput struct {
	Group string `path:"group" maxLength:"20" doc:"Id of the group"`
}

// GroupOutput has a group.
type GroupOutput struct{ Body FailureGroup }

func (o operations) get(ctx context.Context, in *GroupInput) (*GroupOutput, error) {
	g, err := o.find(ctx, in.Group)
	if err != nil {
		return nil, err
	}
	return &GroupOutput{*g}, nil
}

// find returns a group that the caller may see.
func (o operations) find(ctx context.Context, id string) (*FailureGroup, error) {
	may, err := visible(ctx)
	if err != nil {
		return nil, err
	}
	return o.Find(ctx, id, may)
}

// TriageInput has a decision about a group.
type TriageInput struct {
	operation.IdempotencyKey
	Group string `path:"group" maxLength:"20" doc:"Id of the group"`
	Body  GroupDecision
}

// GroupDecision is a decision about a group of failures.
type GroupDecision struct {
	Decision Decision  `json:"decision" enum:"assigned,unassigned,muted,unmuted,noted"`
	Assignee string    `json:"assignee,omitempty" maxLength:"200" doc:"Of assigned: who cares for the group"`
	Until    time.Time `json:"until,omitzero" doc:"Of muted: time at which it ends"`
	Count    int       `json:"count,omitempty" minimum:"0" maximum:"1000000" doc:"Of muted: it ends with this further failure: 2 with the second"`
	Reason   string    `json:"reason,omitempty" maxLength:"1000" doc:"Why, or the text of the note; muted and noted need it"`
}

// TriageOutput has what became of a decision.
type TriageOutput struct{ Body GroupDecided }

func (o operations) triage(ctx context.Context, in *TriageInput) (*TriageOutput, error) {
	d, caller := in.Body, access.FromContext(ctx)
	access.Describe(ctx, access.Action{Name: "group " + string(d.Decision), Object: "group " + in.Group, Reason: d.Reason})
	change := Change{Decision: d.Decision, Assignee: d.Assignee, Until: d.Until, Count: d.Count, Reason: d.Reason}
	if err := change.Check(time.Now()); err != nil {
		return nil, system.InputError{Err: err}
	}
	g, err := o.find(ctx, in.Group)
	if err != nil {
		return nil, err
	}
	if !caller.MayQueue(g.Queue) {
		return nil, problem.NotAllowed(caller, "queue", g.Queue)
	}
	decided, err := o.Decide(ctx, g, change, caller.Name)
	return &TriageOutput{decided}, err
}
