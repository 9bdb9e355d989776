package client

import (
	"context"
	"net/url"
	"time"

	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/doctor"
)

// RouteStates returns the states of the routes that the caller may see.
func (c *Client) RouteStates(ctx context.Context) ([]app.RouteState, error) {
	var routes api.Routes
	err := c.get(ctx, readTimeout, "/routes", nil, &routes)
	return routes.Routes, err
}

// Diagnose runs every check of doctor in the server.
func (c *Client) Diagnose(ctx context.Context) ([]doctor.Finding, error) {
	var diagnosis api.Diagnosis
	if err := c.get(ctx, actTimeout, "/doctor", nil, &diagnosis); err != nil {
		return nil, err
	}
	var findings []doctor.Finding
	for _, f := range diagnosis.Findings {
		findings = append(findings, doctor.Finding(f))
	}
	return findings, nil
}

// Queues returns the names of queues that the caller may see, without Watership's.
func (c *Client) Queues(ctx context.Context) (names []string, err error) {
	query := url.Values{}
	setInt(query, "limit", 10_000)
	var page api.QueuePage
	err = c.get(ctx, readTimeout, "/queues", query, &page)
	for _, queue := range page.Queues {
		if !queue.Own {
			names = append(names, queue.Name)
		}
	}
	return names, err
}

// Retention returns the retention of published and handled events; 0: for ever.
func (c *Client) Retention() time.Duration {
	return time.Duration(c.server.Settings.RetentionSeconds) * time.Second
}
