package client

import (
	"context"
	"net/url"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/waiting"
)

// Waiting selects waiting messages: those that match a query and, unless there are no ids,
// have one of them.
type Waiting struct {
	Query kql.Node
	IDs   []string
}

// WaitingGroups returns the waiting messages that match a query by their kinds.
func (c *Client) WaitingGroups(ctx context.Context, node kql.Node) (groups []*waiting.Group, err error) {
	values, err := pageOf(node)
	for err == nil {
		var page httpapi.WaitingGroupPage
		if err = c.get(ctx, listTimeout, "/waiting/groups", values, &page); err != nil {
			return nil, err
		}
		for _, g := range page.Groups {
			groups = append(groups, (*waiting.Group)(&g))
		}
		if page.Cursor == "" {
			return groups, nil
		}
		values.Set("cursor", page.Cursor)
	}
	return nil, err
}

// Waiting returns the waiting messages that match a query, the next due first.
func (c *Client) Waiting(ctx context.Context, node kql.Node) (messages []waiting.Message, err error) {
	values, err := pageOf(node)
	for err == nil {
		var page httpapi.WaitingPage
		if err = c.get(ctx, listTimeout, "/waiting", values, &page); err != nil {
			return nil, err
		}
		for _, m := range page.Messages {
			messages = append(messages, waiting.Message(m))
		}
		if page.Cursor == "" {
			return messages, nil
		}
		values.Set("cursor", page.Cursor)
	}
	return nil, err
}

// pageOf returns the parameters of the first page of a query's results.
func pageOf(node kql.Node) (url.Values, error) {
	query, dsl, err := split(node)
	values := url.Values{}
	set(values, "query", query)
	set(values, "dsl", dsl)
	setInt(values, "limit", maxPage)
	return values, err
}

// CountWaiting counts the messages about which DecideWaiting would decide.
func (c *Client) CountWaiting(ctx context.Context, w Waiting, d waiting.Decision) (httpapi.WaitingDecided, error) {
	return c.decideWaiting(ctx, w, d, httpapi.WaitingDecision{DryRun: true})
}

// DecideWaiting decides about waiting messages, unless there are more than expected.
func (c *Client) DecideWaiting(ctx context.Context, w Waiting, d waiting.Decision, atMost int) (httpapi.WaitingDecided, error) {
	return c.decideWaiting(ctx, w, d, httpapi.WaitingDecision{AtMost: &atMost})
}

func (c *Client) decideWaiting(ctx context.Context, w Waiting, d waiting.Decision, r httpapi.WaitingDecision) (done httpapi.WaitingDecided, err error) {
	query, dsl, err := split(w.Query)
	if err != nil {
		return done, err
	}
	if r.DSL, err = objectOf(dsl); err != nil {
		return done, err
	}
	r.IDs, r.Query, r.Action, r.NotBefore, r.Reason = w.IDs, query, d.Action, d.NotBefore, d.Reason
	if len(w.IDs) == 0 {
		r.Query = everything(query, dsl)
	}
	err = c.post(ctx, actTimeout, "/waiting/decide", newKey(), r, &done)
	return done, err
}
