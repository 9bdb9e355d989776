// Package adoptionpage has the pages for browsers that take in the error queues of other
// systems.
package adoptionpage

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/actionpage"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// pages are the pages, which call operations.
type pages struct {
	frame *frame.Frame
	api   operation.Via
}

// Register adds the pages to a frame that has their templates.
func Register(f *frame.Frame, api operation.Via) {
	p := pages{f, api}
	p.adopt().Add(f)
	f.Handle("GET /adoptions/{id}", p.show)
	f.Handle("POST /adoptions/{id}/cancel", p.cancel)
}

const refresh = time.Second // while an adoption runs

func page(title, template string, data any, refused *problem.Problem) frame.Page {
	made := frame.Page{Title: title, Section: "/failures", Template: template, Data: data, Styles: []string{"failures.css"}}
	if refused != nil {
		made.Status = refused.Status
	}
	return made
}

// List is the page of the adoptions, with the form for another one.
type List struct {
	actionpage.Shown[adoptions.Request, adoptions.AdoptionPreview]
	Formats   []adoptions.Format
	Queues    []string // to choose from
	Adoptions []Adoption
}

// Adoption is an adoption with its links.
type Adoption struct{ adoptions.Adoption }

// Link is the address of the page of an adoption.
func (a Adoption) Link() string { return "/adoptions/" + url.PathEscape(a.ID) }

// Badge is the class of the state's badge.
func (a Adoption) Badge() string {
	switch a.State {
	case adoptions.Done:
		return "good"
	case adoptions.Failed:
		return "bad"
	case adoptions.Interrupted:
		return "warn"
	}
	return ""
}

// FailuresLink is a link to the unresolved failures of the queue in which a group has failed.
func (Adoption) FailuresLink(queue string) string {
	return "/failures?" + url.Values{"q": {kql.FieldIs("queue", queue).String()}}.Encode()
}

// adopt is the action that takes in an error queue. Its preview reads the first messages, which return to their queue.
func (p pages) adopt() actionpage.Flow[adoptions.Request, adoptions.AdoptionPreview] {
	return actionpage.Flow[adoptions.Request, adoptions.AdoptionPreview]{
		Path: "/adoptions", PreviewPath: "/adoptions/preview", Role: access.Operator, Confirmation: frame.Confirmation{Name: "an adoption", Unit: "message"},
		Read: readRequest,
		Preview: func(ctx context.Context, request adoptions.Request) (adoptions.AdoptionPreview, operation.Found, error) {
			found, err := adoptions.PreviewAdoption.Call(ctx, p.api, adoptions.PreviewInput{Body: adoptions.AdoptionRequest(request)})
			return found.Body, operation.Found{Matched: found.Body.Matched}, err
		},
		Act: func(ctx context.Context, key operation.IdempotencyKey, request adoptions.Request, shown frame.Confirmed) (frame.Response, error) {
			request.Limit, request.Expect, request.Reason = *shown.Expect, shown.Expect, shown.Reason
			started, err := adoptions.StartAdoption.Call(ctx, p.api, adoptions.StartInput{IdempotencyKey: key, Body: adoptions.AdoptionRequest(request)})
			return frame.Redirect(Adoption{started.Body}.Link()), err
		},
		Page: p.list,
	}
}

func readRequest(_ *http.Request, form url.Values) (r adoptions.Request, isSelected bool, err error) {
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	r = adoptions.Request{Queue: text("queue"), Format: text("format"), FailedQueue: text("failed_queue")}
	if limit := text("limit"); limit != "" {
		if r.Limit, err = strconv.Atoi(limit); err != nil {
			err = frame.Unprocessable(fmt.Sprintf("limit %q: expected a number", limit), "")
		}
	}
	return r, true, err
}

// list shows the latest adoptions, and the form.
func (p pages) list(ctx context.Context, shown actionpage.Shown[adoptions.Request, adoptions.AdoptionPreview]) (frame.Page, error) {
	v := List{Shown: shown, Formats: adoptions.Formats()}
	found, err := adoptions.ListAdoptions.Call(ctx, p.api, struct{}{})
	if err != nil && v.Problem == nil {
		v.Problem = frame.ProblemOf(err)
	}
	made := page("Error queues of other systems", "adoptions.html", nil, v.Problem)
	for _, a := range found.Body.Adoptions {
		v.Adoptions = append(v.Adoptions, Adoption{a})
		if a.State == adoptions.Running && !v.Previewed { // another reading would show messages as new that a preview has
			made.Refresh = refresh
		}
	}
	queues, _ := routes.ListQueues.Call(ctx, p.api, routes.QueuesInput{}) // without the management API any queue can be named
	for _, q := range queues.Body.Queues {
		if !q.Own {
			v.Queues = append(v.Queues, q.Name)
		}
	}
	made.Data = v
	return made, nil
}

// One is the page of an adoption.
type One struct {
	Adoption
	Key     string
	Refused *problem.Problem // of an action
}

// show shows an adoption.
func (p pages) show(r *http.Request) (frame.Response, error) { return p.showOne(r, nil) }

func (p pages) showOne(r *http.Request, refused *problem.Problem) (frame.Response, error) {
	found, err := adoptions.GetAdoption.Call(r.Context(), p.api, adoptions.IDInput{ID: r.PathValue("id")})
	if err != nil {
		return nil, err
	}
	v := One{Adoption: Adoption{found.Body}, Key: rand.Text(), Refused: refused}
	made := page("Queue "+v.Queue, "adoption.html", v, refused)
	if v.State == adoptions.Running {
		made.Refresh = refresh
	}
	return made, nil
}

func (p pages) cancel(r *http.Request) (frame.Response, error) {
	id := r.PathValue("id")
	in := adoptions.CancelInput{IdempotencyKey: frame.KeyOf(r), IDInput: adoptions.IDInput{ID: id}}
	if _, err := adoptions.CancelAdoption.Call(r.Context(), p.api, in); err != nil {
		return p.showOne(r, frame.ProblemOf(err))
	}
	return frame.Redirect("/adoptions/" + operation.Segment(id)), nil
}
