package client

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/topology/pause"
)

// RouteStates returns the states of the routes that the caller may see.
func (c *Client) RouteStates(ctx context.Context) ([]routes.State, error) {
	var found routes.Routes
	if err := c.get(ctx, readTimeout, "/routes", nil, &found); err != nil {
		return nil, err
	}
	states := make([]routes.State, len(found.Routes))
	for i, route := range found.Routes {
		states[i] = routes.State(route)
	}
	if found.Problem != "" {
		return states, errors.New(found.Problem)
	}
	return states, nil
}

// PauseRoute pauses the route of a queue; "": all routes.
func (c *Client) PauseRoute(ctx context.Context, queue, reason string) error {
	return c.post(ctx, actTimeout, routePath(queue)+"/pause", newKey(), map[string]string{"reason": reason}, nil)
}

func routePath(queue string) string {
	if queue == pause.All {
		return "/routes"
	}
	return "/routes/" + operation.Segment(queue)
}

// ResumeRoute resumes the route of a queue that an operator has paused; "": all routes.
func (c *Client) ResumeRoute(ctx context.Context, queue, reason string) (resumed routes.Resumed, err error) {
	err = c.post(ctx, actTimeout, routePath(queue)+"/resume", newKey(), map[string]string{"reason": reason}, &resumed)
	return resumed, err
}

// PlanRoute returns the change of the policies of a queue by which it gets retries, or loses them.
func (c *Client) PlanRoute(ctx context.Context, queue string, action routes.PolicyAction) (change routes.PolicyChange, err error) {
	err = c.post(ctx, actTimeout, routePath(queue)+"/"+string(action), "", routes.PolicyRequest{DryRun: true}, &change)
	return change, err
}

// ChangeRoute makes a change of PlanRoute. It returns when RabbitMQ has applied it to the queue.
func (c *Client) ChangeRoute(ctx context.Context, change routes.PolicyChange) error {
	action := routes.AddRoute
	if change.Delete != "" {
		action = routes.RemoveRoute
	}
	return c.post(ctx, actTimeout, routePath(change.Queue)+"/"+string(action), newKey(), routes.PolicyRequest{Expect: change.Digest}, nil)
}

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
