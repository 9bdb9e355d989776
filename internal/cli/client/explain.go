package client

import (
	"context"
	"net/url"

	"github.com/watershipmq/watership/internal/operate/messages"
)

// Explain explains the retries of a message or of an error.
func (c *Client) Explain(ctx context.Context, r messages.Request) ([]messages.Explanation, error) {
	query := url.Values{"header": r.Headers}
	for name, value := range map[string]string{
		"id": r.ID, "queue": r.Queue, "error_type": r.Error.Type, "error": r.Error.Text, "class": r.Class,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	setInt(query, "attempt", r.Attempt)
	var found messages.Explanations
	if err := c.get(ctx, readTimeout, "/explain", query, &found); err != nil {
		return nil, err
	}
	list := make([]messages.Explanation, len(found.Explanations))
	for i, explanation := range found.Explanations {
		list[i] = messages.Explanation(explanation)
	}
	return list, nil
}
