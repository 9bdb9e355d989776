package console

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/statuspage"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/topology/pause"
)

// routesPage is the data of the page of routes.
type routesPage struct {
	Wait     string
	Routes   *frame.Part[statuspage.Routes]
	Failures *frame.Part[statuspage.OpenFailures]
	Queues   *frame.Part[[]routes.Queue]
	Key      string           // of the next action
	Done     string           // the result of the last action
	Refused  *problem.Problem // of an action
	Queue    string           // of the action
	Reason   string           // likewise
}

const routesRefresh = 5 * time.Second

// showRoutes shows the routes, and the retry policies as pictures.
func (c *Console) showRoutes(r *http.Request) (frame.Response, error) {
	done, _ := c.DoneBefore(r)
	return c.routesPage(r, routesPage{Done: done.Get("action"), Queue: done.Get("queue")}), nil
}

func (c *Console) routesPage(r *http.Request, data routesPage) frame.Page {
	p := frame.NewParts(r)
	data.Wait, data.Key = "/routes?"+frame.WaitParameter+"=1", rand.Text()
	data.Routes, data.Failures, data.Queues = frame.Ask(p, c.routes), frame.Ask(p, c.openFailures), frame.Ask(p, c.queues)
	p.Wait()
	made := systemPage("Routes", "/routes", "routes.html", data)
	made.Refresh = routesRefresh
	if data.Refused != nil {
		made.Status, made.Refresh = data.Refused.Status, 0
	}
	return made
}

func (c *Console) routes(ctx context.Context) (statuspage.Routes, error) {
	var found routes.Routes
	err := c.client.Get(ctx, "/routes", url.Values{"recent": {"true"}}, &found)
	return statuspage.NewRoutes(found), err
}

func (c *Console) queues(ctx context.Context) (all []routes.Queue, err error) {
	for cursor := ""; ; {
		var found routes.QueuePage
		if err := c.client.Get(ctx, "/queues", url.Values{"cursor": {cursor}}, &found); err != nil {
			return nil, err
		}
		all = append(all, found.Queues...)
		if cursor = found.Cursor; cursor == "" {
			return all, nil
		}
	}
}

func (c *Console) pauseRoute(r *http.Request) (frame.Response, error) {
	return c.actOnRoute(r, "pause")
}

func (c *Console) resumeRoute(r *http.Request) (frame.Response, error) {
	return c.actOnRoute(r, "resume")
}

// actOnRoute pauses or resumes the route of a form, or all routes. A refusal is shown with the form.
func (c *Console) actOnRoute(r *http.Request, action string) (frame.Response, error) {
	queue, reason := r.PostForm.Get("queue"), strings.TrimSpace(r.PostForm.Get("reason"))
	if action == "pause" && reason == "" {
		refused := frame.Unprocessable("a pause needs a reason", "Say why: others see it at the route.")
		return c.routesPage(r, routesPage{Refused: refused, Queue: queue}), nil
	}
	path := "/routes/" + operation.Segment(queue) + "/" + action
	if queue == pause.All {
		path = "/routes/" + action
	}
	var resumed routes.Resumed
	err := c.client.Post(r.Context(), path, r.PostForm.Get("key"), map[string]string{"reason": reason}, &resumed)
	if err != nil {
		return c.routesPage(r, routesPage{Refused: frame.ProblemOf(err), Queue: queue, Reason: reason}), nil
	}
	done := "resumed"
	switch {
	case action == "pause":
		done = "paused"
	case !resumed.Changed:
		done = "unchanged"
	case resumed.WithAll:
		done = "paused with all"
	}
	return c.Done("/routes", url.Values{"action": {done}, "queue": {queue}}), nil
}
