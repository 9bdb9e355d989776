package client

import (
	"context"
	"net/url"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/history"
)

// Groups returns the unresolved failures that match a query by their kinds, the most
// frequent first.
func (c *Client) Groups(ctx context.Context, node kql.Node) (groups []*history.Group, err error) {
	query, dsl, err := split(node)
	if err != nil {
		return nil, err
	}
	values := url.Values{}
	set(values, "query", query)
	set(values, "dsl", dsl)
	setInt(values, "limit", maxPage)
	for {
		var page api.GroupPage
		if err := c.get(ctx, listTimeout, "/failures/groups", values, &page); err != nil {
			return nil, err
		}
		groups = append(groups, page.Groups...)
		if page.Cursor == "" {
			return groups, nil
		}
		values.Set("cursor", page.Cursor)
	}
}

// Failures selects unresolved failures: those that match a query and, unless there are no
// ids, have one of them.
type Failures struct {
	Query kql.Node
	IDs   []string
}

// CountFailures counts the failures that Discard with the same reason would discard. The
// result has the ids that name nothing.
func (c *Client) CountFailures(ctx context.Context, f Failures, reason string) (api.Discarded, error) {
	return c.discard(ctx, f, api.Discard{Reason: reason, DryRun: true})
}

// Discard marks failures as resolved, unless there are not as many as expected.
func (c *Client) Discard(ctx context.Context, f Failures, expected int, reason string) (api.Discarded, error) {
	return c.discard(ctx, f, api.Discard{Reason: reason, Expect: &expected})
}

func (c *Client) discard(ctx context.Context, f Failures, d api.Discard) (done api.Discarded, err error) {
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
