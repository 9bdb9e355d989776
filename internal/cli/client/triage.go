package client

import (
	"context"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation"
)

// Group returns the group of failures with an id.
func (c *Client) Group(ctx context.Context, id string) (*failures.FailureGroup, error) {
	var g failures.FailureGroup
	err := c.get(ctx, listTimeout, "/failures/groups/"+operation.Segment(id), nil, &g)
	return (*failures.FailureGroup)(&g), err
}

// Triage records a decision about a group of failures.
func (c *Client) Triage(ctx context.Context, id string, change failures.Change) (done failures.GroupDecided, err error) {
	err = c.post(ctx, actTimeout, "/failures/groups/"+operation.Segment(id)+"/triage", newKey(), failures.GroupDecision{
		Decision: change.Decision, Assignee: change.Assignee, Until: change.Until, Count: change.Count, Reason: change.Reason,
	}, &done)
	return done, err
}

// Resolve selects unresolved failures: those that match a query and, unless there are no
// groups, are in one of them.
type Resolve struct {
	Query  kql.Node
	Groups []string // ids
	UpTo   int64    // sequence after which failures have not come yet; 0: no limit
}

// CountToResolve counts the failures that Resolve with the same reason would discard.
func (c *Client) CountToResolve(ctx context.Context, r Resolve, reason string) (failures.GroupsResolved, error) {
	return c.resolve(ctx, r, failures.Resolve{Reason: reason, DryRun: true})
}

// Resolve resolves groups of failures, unless there are not as many failures as expected.
func (c *Client) Resolve(ctx context.Context, r Resolve, expected int, reason string) (failures.GroupsResolved, error) {
	return c.resolve(ctx, r, failures.Resolve{Reason: reason, Expect: &expected})
}

func (c *Client) resolve(ctx context.Context, wanted Resolve, r failures.Resolve) (done failures.GroupsResolved, err error) {
	query, dsl, err := split(wanted.Query)
	if err != nil {
		return done, err
	}
	if r.DSL, err = objectOf(dsl); err != nil {
		return done, err
	}
	r.Groups, r.Query, r.UpTo = wanted.Groups, query, wanted.UpTo
	if len(wanted.Groups) == 0 {
		r.Query = everything(query, dsl)
	}
	err = c.post(ctx, actTimeout, "/failures/resolve", newKey(), r, &done)
	return done, err
}

// FailuresBy returns the unresolved failures that match a query by the values of fields.
func (c *Client) FailuresBy(ctx context.Context, node kql.Node, fields []string) (by failures.FailuresBy, err error) {
	values, err := pageOf(node)
	if err != nil {
		return by, err
	}
	values.Del("limit")
	set(values, "fields", strings.Join(fields, ","))
	var found failures.FailuresBy
	err = c.get(ctx, listTimeout, "/failures/by", values, &found)
	return failures.FailuresBy(found), err
}
