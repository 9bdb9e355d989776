package client

import (
	"context"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/failures"
)

// Groups returns the groups of the unresolved failures that match a query, the most
// frequent first; those that are muted only if withMuted is set.
func (c *Client) Groups(ctx context.Context, node kql.Node, withMuted bool) (failures.Groups, error) {
	found := failures.Groups{Groups: []*failures.FailureGroup{}}
	values, err := pageOf(node)
	if withMuted {
		values.Set("muted", "true")
	}
	for err == nil {
		var page failures.GroupPage
		if err = c.get(ctx, listTimeout, "/failures/groups", values, &page); err != nil {
			break
		}
		for _, g := range page.Groups {
			found.Groups = append(found.Groups, (*failures.FailureGroup)(&g))
		}
		if found.Muted = page.Muted; page.Cursor == "" {
			return found, nil
		}
		values.Set("cursor", page.Cursor)
	}
	return found, err
}

// Failures selects unresolved failures: those that match a query and, unless there are no
// ids, have one of them.
type Failures struct {
	Query kql.Node
	IDs   []string
}

// CountFailures counts the failures that Discard with the same reason would discard. The
// result has the ids that name nothing.
func (c *Client) CountFailures(ctx context.Context, f Failures, reason string) (httpapi.Discarded, error) {
	return c.discard(ctx, f, httpapi.Discard{Reason: reason, DryRun: true})
}

// Discard marks failures as resolved, unless there are not as many as expected.
func (c *Client) Discard(ctx context.Context, f Failures, expected int, reason string) (httpapi.Discarded, error) {
	return c.discard(ctx, f, httpapi.Discard{Reason: reason, Expect: &expected})
}

func (c *Client) discard(ctx context.Context, f Failures, d httpapi.Discard) (done httpapi.Discarded, err error) {
	query, dsl, err := split(f.Query)
	if err != nil {
		return done, err
	}
	if d.DSL, err = objectOf(dsl); err != nil {
		return done, err
	}
	d.IDs, d.Query = f.IDs, query
	if len(f.IDs) == 0 {
		d.Query = everything(query, dsl)
	}
	err = c.post(ctx, actTimeout, "/failures/discard", newKey(), d, &done)
	return done, err
}
