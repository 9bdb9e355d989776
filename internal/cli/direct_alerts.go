package cli

import (
	"context"

	"github.com/watershipmq/watership/internal/alerts"
)

// Alerts implements system.
func (d *direct) Alerts(ctx context.Context) (alerts.View, error) {
	return alerts.Service{App: d.App}.List(ctx)
}

// TestAlerts implements system.
func (d *direct) TestAlerts(ctx context.Context, receiver, operator string) ([]alerts.Answer, error) {
	return alerts.Service{App: d.App}.Test(ctx, receiver, operator)
}
