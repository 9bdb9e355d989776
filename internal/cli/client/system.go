package client

import (
	"context"
	"net/url"
	"time"

	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/server"
)

// Reload reloads the configuration of the server.
func (c *Client) Reload(ctx context.Context) (reloaded server.Reloaded, err error) {
	err = c.post(ctx, actTimeout, "/reload", newKey(), struct{}{}, &reloaded)
	return reloaded, err
}

// Diagnose runs every check of doctor in the server.
func (c *Client) Diagnose(ctx context.Context) ([]doctor.Finding, error) {
	var diagnosis httpapi.Diagnosis
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
	var page routes.QueuePage
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
