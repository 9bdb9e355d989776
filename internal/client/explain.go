package client

import (
	"context"
	"net/url"

	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/explain"
)

// Explain explains the retries of a message or of an error.
func (c *Client) Explain(ctx context.Context, r explain.Request) ([]explain.Explanation, error) {
	query := url.Values{"header": r.Headers}
	for name, value := range map[string]string{
		"id": r.ID, "queue": r.Queue, "error_type": r.Error.Type, "error": r.Error.Text, "class": r.Class,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	setInt(query, "attempt", r.Attempt)
	var found api.Explanations
	if err := c.get(ctx, readTimeout, "/explain", query, &found); err != nil {
		return nil, err
	}
	list := make([]explain.Explanation, len(found.Explanations))
	for i, explanation := range found.Explanations {
		list[i] = explain.Explanation(explanation)
	}
	return list, nil
}
