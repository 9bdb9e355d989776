// Package routepage has the pages for browsers that change routes: policies of queues, and the
// reload of the configuration.
package routepage

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"

	"github.com/watershipmq/watership/internal/console/actionpage"
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
	p.changePolicy().Add(f)
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

// Policy names a queue whose policies change.
type Policy struct {
	Queue  string
	Action routes.PolicyAction
	digest string // of the change that was shown
}

// Title names the change.
func (v Policy) Title() string {
	if v.Action == routes.Remove {
		return "No more retries for " + v.Queue
	}
	return "Retries for " + v.Queue
}

// PolicyView is the preview of a change of the policies of a queue.
type PolicyView struct {
	actionpage.Shown[Policy, routes.PolicyChange]
	Lines []string // the change in words
}

// changePolicy is the action that changes the policies of a queue.
func (p pages) changePolicy() actionpage.Flow[Policy, routes.PolicyChange] {
	return actionpage.Flow[Policy, routes.PolicyChange]{
		Path: "/routes/policy", Role: access.Admin, Confirmation: frame.Confirmation{Name: "a change of policies", Unit: "queue"},
		Read: readPolicy,
		Preview: func(ctx context.Context, v Policy) (routes.PolicyChange, operation.Found, error) {
			change, err := p.call(ctx, v, operation.IdempotencyKey{}, routes.PolicyRequest{Bounds: operation.Bounds{DryRun: true}})
			return change, operation.Found{Matched: change.Matched}, err
		},
		Act: func(ctx context.Context, key operation.IdempotencyKey, v Policy, shown frame.Confirmed) (frame.Response, error) {
			if v.digest == "" {
				return nil, frame.Unprocessable("the form has no change", "Open the page again.")
			}
			_, err := p.call(ctx, v, key, routes.PolicyRequest{Bounds: shown.Bounds, Digest: v.digest})
			return p.frame.Done("/routes", url.Values{"action": {string(v.Action)}, "queue": {v.Queue}}), err
		},
		Page: func(_ context.Context, shown actionpage.Shown[Policy, routes.PolicyChange]) (frame.Page, error) {
			v := PolicyView{Shown: shown}
			if v.Previewed {
				v.Lines = strings.Split(v.Found.Text(), "\n")
			}
			return page(v.Selected.Title(), "routes_policy.html", v, nil), nil
		},
	}
}

func readPolicy(_ *http.Request, form url.Values) (v Policy, isSelected bool, err error) {
	v = Policy{strings.TrimSpace(form.Get("queue")), routes.Add, form.Get("digest")}
	if form.Get("action") == string(routes.Remove) {
		v.Action = routes.Remove
	}
	if v.Queue == "" {
		err = problem.BadRequest("no queue is named", "Go back to the routes and name a queue.")
	}
	return v, true, err
}

// call does the change as a request asks for it.
func (p pages) call(ctx context.Context, v Policy, key operation.IdempotencyKey, request routes.PolicyRequest) (routes.PolicyChange, error) {
	change := routes.AddRoute
	if v.Action == routes.Remove {
		change = routes.RemoveRoute
	}
	changed, err := change.Call(ctx, p.api, routes.PolicyInput{Queue: v.Queue, IdempotencyKey: key, Body: request})
	return changed.Body, err
}

// Reload is the page of the configuration.
type Reload struct {
	Key      string
	Reloaded *server.Reloaded // just now; nil: no
	Problem  *problem.Problem
}

func (p pages) reloadForm(r *http.Request) (frame.Response, error) {
	if err := frame.Need(r, access.Admin, "a reload of the configuration"); err != nil {
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
