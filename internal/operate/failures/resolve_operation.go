package failures

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/render/reason"
)

// ResolveInput asks to resolve groups.
type ResolveInput struct {
	operation.IdempotencyKey
	Body Resolve
}

// Resolve selects unresolved failures, to resolve their groups.
type Resolve struct {
	eventfilter.Choice
	Groups []string `json:"groups,omitempty" maxItems:"100" nullable:"false" doc:"Ids of groups"`
	operation.Bounds
}

func (r Resolve) object() string {
	if len(r.Groups) > 0 {
		return "group " + strings.Join(r.Groups, ", ")
	}
	return r.Object()
}

// ResolveOutput has the result.
type ResolveOutput struct{ Body GroupsResolved }

// GroupsResolved is the result of a Resolve.
type GroupsResolved struct {
	operation.Outcome
	Groups   []ResolvableGroup `json:"groups" nullable:"false" doc:"The groups that have them"`
	Resolved []string          `json:"resolved" nullable:"false" doc:"Ids of the groups that are resolved"`
	Open     []string          `json:"open" nullable:"false" doc:"Ids of the groups that have other failures"`
	Parked   []ParkedCopies    `json:"parked" nullable:"false" doc:"Queues with parked copies, which stay there"`
}

func (o operations) resolve(ctx context.Context, in *ResolveInput) (*ResolveOutput, error) {
	r := in.Body
	r.Describe(ctx, "resolve", r.object())
	found, err := o.resolvable(ctx, r)
	if err != nil {
		return nil, err
	}
	body := GroupsResolved{Outcome: operation.NewOutcome(), Groups: found.Groups, Resolved: []string{}, Open: []string{}, Parked: []ParkedCopies{}}
	for _, f := range found.Failures {
		body.Find(f.Queue, f.Sequence)
	}
	body.UpTo = found.UpTo
	if body.Unknown, err = eventfilter.Unknown(ctx, o.System, r.IDs); err != nil {
		return nil, err
	}
	if err := r.Check(len(found.Failures), "failure"); err != nil {
		return nil, err
	}
	if !r.DryRun && len(found.Failures) > 0 {
		done, err := o.Resolve(ctx, found, reason.Decision{Operator: access.FromContext(ctx).Name, Reason: r.Reason})
		body.Done, body.Resolved, body.Open, body.Missing = done.Failures, done.Resolved, done.Open, done.Missing
		if err != nil {
			return &ResolveOutput{body}, body.Unfinished(err, "failure")
		}
	}
	find := FindParkedCopies
	if r.DryRun {
		find = previewParked
	}
	parked, err := find(ctx, o.System, slices.Sorted(maps.Keys(body.Queues)))
	body.Parked = append(body.Parked, parked...)
	return &ResolveOutput{body}, err
}

// resolvable finds the failures of a request that the caller may see.
func (o operations) resolvable(ctx context.Context, r Resolve) (Resolvable, error) {
	if err := r.NeedReason(); err != nil {
		return Resolvable{}, err
	}
	if len(r.Groups) == 0 {
		if err := r.Need("query, dsl, ids or groups"); err != nil {
			return Resolvable{}, err
		}
	}
	node, err := r.Chosen(ctx, o.System)
	if err != nil {
		return Resolvable{}, err
	}
	may, err := visible(ctx)
	if err != nil {
		return Resolvable{}, err
	}
	return o.Resolvable(ctx, Selected{Query: node, Visible: may, Groups: r.Groups, IDs: eventfilter.SortedIDs(r.IDs), UpTo: r.UpTo})
}
