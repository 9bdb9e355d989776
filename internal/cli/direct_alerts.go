package cli

import (
	"context"

	"github.com/watershipmq/watership/internal/operate/alerts"
)

// Alerts implements backend.
func (d *direct) Alerts(ctx context.Context) (alerts.View, error) {
	return alerts.Service{System: d.System}.List(ctx)
}

// TestAlerts implements backend.
func (d *direct) TestAlerts(ctx context.Context, receiver, operator string) ([]alerts.Answer, error) {
	return alerts.Service{System: d.System}.Test(ctx, receiver, operator)
}
