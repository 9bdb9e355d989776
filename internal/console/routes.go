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
func (c systemPages) showRoutes(r *http.Request) (frame.Response, error) {
	done, _ := c.DoneBefore(r)
	return c.routesPage(r, routesPage{Done: done.Get("action"), Queue: done.Get("queue")}), nil
}

func (c systemPages) routesPage(r *http.Request, data routesPage) frame.Page {
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

func (c systemPages) routes(ctx context.Context) (statuspage.Routes, error) {
	found, err := routes.ListRoutes.Call(ctx, c.api, routes.RoutesInput{Recent: true})
	return statuspage.NewRoutes(found.Body), err
}

func (c systemPages) queues(ctx context.Context) (all []routes.Queue, err error) {
	for in := (routes.QueuesInput{}); ; {
		found, err := routes.ListQueues.Call(ctx, c.api, in)
		if err != nil {
			return nil, err
		}
		all = append(all, found.Body.Queues...)
		if in.Cursor = found.Body.Cursor; in.Cursor == "" {
			return all, nil
		}
	}
}

// pauseRoute pauses the route of a form, or all routes. A refusal is shown with the form.
func (c systemPages) pauseRoute(r *http.Request) (frame.Response, error) {
	in := routes.PauseInput{Queue: r.PostForm.Get("queue"), PauseAllInput: routes.PauseAllInput{IdempotencyKey: frame.KeyOf(r)}}
	if in.Body.Reason = reasonOf(r); in.Body.Reason == "" {
		return c.refused(r, frame.Unprocessable("a pause needs a reason", "Say why: others see it at the route.")), nil
	}
	var err error
	if in.Queue == pause.All {
		_, err = routes.PauseAllRoutes.Call(r.Context(), c.api, in.PauseAllInput)
	} else {
		_, err = routes.PauseRoute.Call(r.Context(), c.api, in)
	}
	if err != nil {
		return c.refused(r, frame.ProblemOf(err)), nil
	}
	return c.done(r, "paused"), nil
}

// resumeRoute resumes the route of a form, or all routes.
func (c systemPages) resumeRoute(r *http.Request) (frame.Response, error) {
	in := routes.ResumeRouteInput{Queue: r.PostForm.Get("queue"), ResumeAllInput: routes.ResumeAllInput{IdempotencyKey: frame.KeyOf(r)}}
	operation.Fill(&in.Body).Reason = reasonOf(r)
	resumed, err := c.resume(r.Context(), in)
	switch {
	case err != nil:
		return c.refused(r, frame.ProblemOf(err)), nil
	case !resumed.Changed:
		return c.done(r, "unchanged"), nil
	case resumed.WithAll:
		return c.done(r, "paused with all"), nil
	}
	return c.done(r, "resumed"), nil
}

func (c systemPages) resume(ctx context.Context, in routes.ResumeRouteInput) (routes.Resumed, error) {
	if in.Queue == pause.All {
		all, err := routes.ResumeAllRoutes.Call(ctx, c.api, in.ResumeAllInput)
		return all.Body.Resumed, err
	}
	one, err := routes.ResumeRoute.Call(ctx, c.api, in)
	return one.Body.Resumed, err
}

func reasonOf(r *http.Request) string { return strings.TrimSpace(r.PostForm.Get("reason")) }

func (c systemPages) refused(r *http.Request, why *problem.Problem) frame.Page {
	return c.routesPage(r, routesPage{Refused: why, Queue: r.PostForm.Get("queue"), Reason: reasonOf(r)})
}

func (c systemPages) done(r *http.Request, action string) frame.Response {
	return c.Done("/routes", url.Values{"action": {action}, "queue": {r.PostForm.Get("queue")}})
}
