// Package routepage has the pages for browsers that change routes: policies of queues, and the
// reload of the configuration.
package routepage

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system/routeconfig"
)

// pages are the pages, which call operations.
type pages struct {
	frame *frame.Frame
	api   operation.Via
}

// Register adds the pages to a frame that has their templates.
func Register(f *frame.Frame, api operation.Via) {
	p := pages{f, api}
	f.Handle("GET /routes/policy", p.previewPolicy)
	f.Handle("POST /routes/policy", p.changePolicy)
	f.Handle("GET /routes/reload", p.reloadForm)
	f.Handle("POST /routes/reload", p.reload)
}

func page(title, template string, data any, refused *problem.Problem) frame.Page {
	made := frame.Page{Title: title, Section: "/routes", Template: template, Data: data, Styles: []string{"system.css"}}
	if refused != nil {
		made.Status = refused.Status
	}
	return made
}

func needAdmin(r *http.Request, action string) error {
	if caller := access.FromContext(r.Context()); !caller.May(access.Admin) {
		return problem.Forbidden(fmt.Sprintf("%s has the role %s, and %s needs %s", caller.Name, caller.Role, action, access.Admin), "Ask an admin.")
	}
	return nil
}

// Policy is the preview of a change of the policies of a queue, or its result.
type Policy struct {
	Queue   string
	Action  routes.PolicyAction
	Reason  string
	Change  *routes.PolicyChange // nil: refused, or done
	Lines   []string             // the change in words
	Key     string
	Done    bool
	Problem *problem.Problem
}

// previewPolicy shows a change. Nothing is changed.
func (p pages) previewPolicy(r *http.Request) (frame.Response, error) {
	v := readPolicy(r.URL.Query())
	if err := needAdmin(r, "a change of policies"); err != nil {
		return nil, err
	}
	if done, _ := p.frame.DoneBefore(r); done.Get("queue") == v.Queue && done.Get("action") == string(v.Action) {
		v.Done = true
		return page(v.Title(), "routes_policy.html", v, nil), nil
	}
	if v.Queue == "" {
		return nil, problem.BadRequest("no queue is named", "Go back to the routes and name a queue.")
	}
	return p.showPolicy(r, v, nil), nil
}

func readPolicy(values url.Values) Policy {
	v := Policy{Queue: strings.TrimSpace(values.Get("queue")), Action: routes.Add, Reason: strings.TrimSpace(values.Get("reason")), Key: rand.Text()}
	if values.Get("action") == string(routes.Remove) {
		v.Action = routes.Remove
	}
	return v
}

// Title names the change.
func (v Policy) Title() string {
	if v.Action == routes.Remove {
		return "No more retries for " + v.Queue
	}
	return "Retries for " + v.Queue
}

// call does the change as a request asks for it.
func (p pages) call(r *http.Request, v Policy, key operation.IdempotencyKey, request routes.PolicyRequest) (routes.PolicyOutput, error) {
	change := routes.AddRoute
	if v.Action == routes.Remove {
		change = routes.RemoveRoute
	}
	return change.Call(r.Context(), p.api, routes.PolicyInput{Queue: v.Queue, IdempotencyKey: key, Body: request})
}

// showPolicy shows the preview, and the problem of a change that was refused.
func (p pages) showPolicy(r *http.Request, v Policy, refused *problem.Problem) frame.Page {
	planned, err := p.call(r, v, operation.IdempotencyKey{}, routes.PolicyRequest{Bounds: operation.Bounds{DryRun: true}})
	switch {
	case refused != nil:
		v.Problem = refused
	case err != nil:
		v.Problem = frame.ProblemOf(err)
	}
	if err == nil {
		v.Change, v.Lines = &planned.Body, strings.Split(planned.Body.Text(), "\n")
	}
	return page(v.Title(), "routes_policy.html", v, v.Problem)
}

// changePolicy makes the change that the page has shown.
func (p pages) changePolicy(r *http.Request) (frame.Response, error) {
	v := readPolicy(r.PostForm)
	request := routes.PolicyRequest{Bounds: operation.Bounds{Reason: v.Reason}, Digest: r.PostForm.Get("digest")}
	count, uncounted := frame.ShownCount(r.PostForm, "queue")
	if request.Expect = &count; uncounted != nil || request.Digest == "" || v.Queue == "" {
		return nil, problem.BadRequest("the form has no change", "Open the page again.")
	}
	if _, err := p.call(r, v, frame.KeyOf(r), request); err != nil {
		return p.showPolicy(r, v, frame.ProblemOf(err)), nil
	}
	values := url.Values{"queue": {v.Queue}, "action": {string(v.Action)}}
	return p.frame.Done("/routes/policy?"+values.Encode(), values), nil
}

// Reload is the page of the configuration.
type Reload struct {
	Key      string
	Reloaded *server.Reloaded // just now; nil: no
	Problem  *problem.Problem
}

func (p pages) reloadForm(r *http.Request) (frame.Response, error) {
	if err := needAdmin(r, "a reload of the configuration"); err != nil {
		return nil, err
	}
	v := Reload{Key: rand.Text()}
	if done, at := p.frame.DoneBefore(r); done != nil {
		v.Reloaded = &server.Reloaded{Time: at, Changed: done["changed"], Restart: done["restart"], Routes: routeconfig.RouteChanges{Added: done["added"], Changed: done["route"], Removed: done["removed"]}}
	}
	return page("Reload the configuration", "reload.html", v, nil), nil
}

func (p pages) reload(r *http.Request) (frame.Response, error) {
	reloaded, err := httpapi.Reload.Call(r.Context(), p.api, httpapi.ReloadInput{IdempotencyKey: frame.KeyOf(r)})
	if err != nil {
		v := Reload{Key: rand.Text(), Problem: frame.ProblemOf(err)}
		return page("Reload the configuration", "reload.html", v, v.Problem), nil
	}
	done := reloaded.Body
	return p.frame.Done("/routes/reload", url.Values{
		"changed": done.Changed, "restart": done.Restart, "added": done.Routes.Added, "route": done.Routes.Changed, "removed": done.Routes.Removed,
	}), nil
}
