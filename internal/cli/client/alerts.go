package client

import (
	"context"

	"github.com/watershipmq/watership/internal/operate/alerts"
)

// Alerts returns the state of the alerts that the caller may see.
func (c *Client) Alerts(ctx context.Context) (alerts.View, error) {
	var v alerts.Alerts
	err := c.get(ctx, readTimeout, "/alerts", nil, &v)
	return alerts.View(v), err
}

// TestAlerts sends a test to a receiver of the server; to all for "". The server names the
// token in it.
func (c *Client) TestAlerts(ctx context.Context, receiver, _ string) ([]alerts.Answer, error) {
	var out alerts.TestAnswers
	err := c.post(ctx, actTimeout, "/alerts/test", newKey(), map[string]string{"receiver": receiver}, &out)
	return out.Answers, err
}
