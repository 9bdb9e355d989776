package failures

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/render/wording"
)

// ResolveInput asks to resolve groups.
type ResolveInput struct {
	operation.IdempotencyKey
	Body Resolve
}

// Resolve selects unresolved failures, to resolve their groups.
type Resolve struct {
	eventfilter.Filter
	DSL    map[string]any `json:"dsl,omitempty" doc:"Query in Elasticsearch's query DSL"`
	Groups []string       `json:"groups,omitempty" maxItems:"100" nullable:"false" doc:"Ids of groups"`
	Reason string         `json:"reason,omitempty" maxLength:"1000" doc:"Why nothing more is to be done; required unless dry_run is set"`
	UpTo   int64          `json:"up_to,omitempty" minimum:"0" doc:"Highest event.sequence that the caller knows, such as up_to of a dry run; later failures stay unresolved and bring their groups back; 0: all failures"`
	Expect *int           `json:"expect,omitempty" minimum:"0" nullable:"true" doc:"Change nothing unless exactly this many failures match"`
	DryRun bool           `json:"dry_run,omitempty" doc:"Change nothing"`
}

func (r Resolve) object() string {
	if len(r.Groups) > 0 {
		return "group " + strings.Join(r.Groups, ", ")
	}
	return r.Query
}

// ResolveOutput has the result.
type ResolveOutput struct{ Body GroupsResolved }

// GroupsResolved is the result of a Resolve.
type GroupsResolved struct {
	Matched  int               `json:"matched" doc:"Unresolved failures that matched"`
	Groups   []ResolvableGroup `json:"groups" nullable:"false" doc:"The groups that have them"`
	Failures int               `json:"failures" doc:"Failures whose events RabbitMQ has confirmed"`
	Resolved []string          `json:"resolved" nullable:"false" doc:"Ids of the groups that are resolved"`
	Open     []string          `json:"open" nullable:"false" doc:"Ids of the groups that have other failures"`
	UpTo     int64             `json:"up_to" doc:"Highest event.sequence of the unresolved failures of the groups"`
	Missing  int               `json:"missing" doc:"Events that the store does not have yet"`
	Parked   []ParkedCopies    `json:"parked" nullable:"false" doc:"Queues with parked copies, which stay there"`
}

func (o operations) resolve(ctx context.Context, in *ResolveInput) (*ResolveOutput, error) {
	r := in.Body
	name := "resolve"
	if r.DryRun {
		name = "resolve (dry run)"
	}
	access.Describe(ctx, access.Action{Name: name, Object: r.object(), Reason: r.Reason})
	if strings.TrimSpace(r.Reason) == "" && !r.DryRun {
		return nil, problem.Invalid("body.reason", "expected a reason")
	}
	found, err := o.resolvable(ctx, r)
	if err != nil {
		return nil, err
	}
	body := GroupsResolved{Matched: len(found.Failures), Groups: found.Groups, UpTo: found.UpTo, Resolved: []string{}, Open: []string{}, Parked: []ParkedCopies{}}
	if r.Expect != nil && *r.Expect != len(found.Failures) {
		return nil, &problem.Problem{
			Status: http.StatusConflict, Detail: fmt.Sprintf("%s, %d expected: nothing was resolved", wording.PluralVerb(len(found.Failures), "failure", "matches", "match"), *r.Expect),
			Remedy: "Look at the failures, and send their number.",
		}
	}
	queues := map[string]int{}
	for _, g := range found.Groups {
		queues[g.Queue] += g.Count
	}
	if !r.DryRun && len(found.Failures) > 0 {
		done, err := o.Resolve(ctx, found, reason.Decision{Operator: access.FromContext(ctx).Name, Reason: r.Reason})
		body.Failures, body.Resolved, body.Open, body.Missing = done.Failures, done.Resolved, done.Open, done.Missing
		if err != nil {
			return &ResolveOutput{body}, err
		}
	}
	find := FindParkedCopies
	if r.DryRun {
		find = previewParked
	}
	parked, err := find(ctx, o.System, slices.Sorted(maps.Keys(queues)))
	body.Parked = append(body.Parked, parked...)
	return &ResolveOutput{body}, err
}

// resolvable finds the failures of a request that the caller may see.
func (o operations) resolvable(ctx context.Context, r Resolve) (Resolvable, error) {
	if !r.HasQuery() && len(r.Groups) == 0 && len(r.DSL) == 0 {
		return Resolvable{}, problem.BadRequest("expected query, dsl or groups", `Give the query "*" to resolve every failure there is.`)
	}
	node, err := r.Node(ctx, o.System, eventfilter.TextOfDSL(r.DSL))
	if err != nil {
		return Resolvable{}, err
	}
	may, err := visible(ctx)
	if err != nil {
		return Resolvable{}, err
	}
	return o.Resolvable(ctx, node, may, r.Groups, r.UpTo)
}
