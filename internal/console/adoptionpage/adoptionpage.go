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
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
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
	f.Handle("GET /adoptions", p.list)
	f.Handle("POST /adoptions/preview", p.preview)
	f.Handle("POST /adoptions", p.start)
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
	adoptions.Request
	Formats   []adoptions.Format
	Queues    []string // to choose from
	Preview   *Preview // of the request; nil: none
	Adoptions []Adoption
	Problem   *problem.Problem
	Key       string
}

// Preview are the failures that were found first.
type Preview struct{ adoptions.AdoptionPreview }

// Typed reports whether the operator must type the number.
func (p Preview) Typed() bool { return p.Matched > frame.TypedAbove }

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

// list shows the latest adoptions, and the form.
func (p pages) list(r *http.Request) (frame.Response, error) {
	v := List{}
	v.Queue = r.URL.Query().Get("queue")
	return p.showList(r.Context(), v), nil
}

func (p pages) showList(ctx context.Context, v List) frame.Page {
	v.Formats, v.Key = adoptions.Formats(), rand.Text()
	found, err := adoptions.ListAdoptions.Call(ctx, p.api, struct{}{})
	if err != nil && v.Problem == nil {
		v.Problem = frame.ProblemOf(err)
	}
	made := page("Error queues of other systems", "adoptions.html", nil, v.Problem)
	for _, a := range found.Body.Adoptions {
		v.Adoptions = append(v.Adoptions, Adoption{a})
		if a.State == adoptions.Running {
			made.Refresh = refresh
		}
	}
	if v.Preview != nil { // which another reading would show as new
		made.Refresh = 0
	}
	queues, _ := routes.ListQueues.Call(ctx, p.api, routes.QueuesInput{}) // without the management API any queue can be named
	for _, q := range queues.Body.Queues {
		if !q.Own {
			v.Queues = append(v.Queues, q.Name)
		}
	}
	made.Data = v
	return made
}

// preview shows the failures that would be taken in first. The messages return to their queue.
func (p pages) preview(r *http.Request) (frame.Response, error) {
	v, err := readRequest(r.PostForm)
	if err != nil {
		return nil, err
	}
	found, err := adoptions.PreviewAdoption.Call(r.Context(), p.api, adoptions.PreviewInput{Body: adoptions.AdoptionRequest(v.Request)})
	if err != nil {
		v.Problem = frame.ProblemOf(err)
	} else {
		v.Preview = &Preview{found.Body}
	}
	return p.showList(r.Context(), v), nil
}

func readRequest(form url.Values) (v List, err error) {
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	v.Request = adoptions.Request{Queue: text("queue"), Format: text("format"), FailedQueue: text("failed_queue"), Reason: text("reason")}
	if limit := text("limit"); limit != "" {
		if v.Limit, err = strconv.Atoi(limit); err != nil {
			return v, problem.BadRequest(fmt.Sprintf("limit %q: expected a number", limit), "Open the page again.")
		}
	}
	return v, nil
}

// start starts an adoption after its preview.
func (p pages) start(r *http.Request) (frame.Response, error) {
	v, err := readRequest(r.PostForm)
	if err != nil {
		return nil, err
	}
	count, refused := frame.ShownCount(r.PostForm, "message")
	if refused == nil {
		refused = frame.CheckTyped(r.PostForm, count, "message")
	}
	v.Expect = &count
	var started adoptions.AdoptionOutput
	if refused == nil {
		started, err = adoptions.StartAdoption.Call(r.Context(), p.api, adoptions.StartInput{IdempotencyKey: frame.KeyOf(r), Body: adoptions.AdoptionRequest(v.Request)})
		if err != nil {
			refused = frame.ProblemOf(err)
		}
	}
	if v.Problem = refused; refused != nil {
		v.Limit, _ = strconv.Atoi(r.PostForm.Get("asked_limit")) // the other one is of the preview
		return p.showList(r.Context(), v), nil
	}
	return frame.Redirect(Adoption{started.Body}.Link()), nil
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
