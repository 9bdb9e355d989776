// Package subscriptionpage has the pages for browsers that list subscriptions, and pause, resume,
// rewind and delete them.
package subscriptionpage

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// pages are the pages, which ask the API.
type pages struct {
	frame  *frame.Frame
	client frame.Client
}

// Register adds the pages to a frame that has their templates.
func Register(f *frame.Frame, c frame.Client) {
	p := pages{f, c}
	f.Handle("GET /subscriptions", p.list)
	f.Handle("GET /subscriptions/{name}", p.show)
	f.Handle("POST /subscriptions/{name}/{action}", p.act)
}

const (
	refresh   = 5 * time.Second
	maxParked = 100 // that are shown
)

func page(title, template string, data any, refused *problem.Problem) frame.Page {
	made := frame.Page{Title: title, Section: "/subscriptions", Template: template, Data: data, Styles: []string{"system.css"}, Refresh: refresh}
	if refused != nil {
		made.Status, made.Refresh = refused.Status, 0
	}
	return made
}

// Subscription is a subscription as pages show it.
type Subscription struct{ subscriptions.Subscription }

// Link is the address of the page of a subscription.
func (s Subscription) Link() string { return "/subscriptions/" + url.PathEscape(s.Name) }

// Badge is the class of the state's badge.
func (s Subscription) Badge() string {
	switch {
	case s.State == "stopped":
		return "bad"
	case s.State == "paused", s.Waiting != "":
		return "warn"
	}
	return "good"
}

// Lag is the age of the events that are not delivered yet.
func (s Subscription) Lag() time.Duration { return frame.Seconds(s.LagSeconds).Round(time.Second) }

// List is the page of the subscriptions.
type List struct {
	Subscriptions []Subscription
	Deleted       string // the name of the one that was deleted just now
	Problem       *problem.Problem
}

func (p pages) list(r *http.Request) (frame.Response, error) {
	v := List{}
	done, _ := p.frame.DoneBefore(r)
	v.Deleted = done.Get("deleted")
	var found subscriptions.Subscriptions
	if err := p.client.Get(r.Context(), "/subscriptions", nil, &found); err != nil {
		v.Problem = frame.ProblemOf(err)
	}
	for _, s := range found.Subscriptions {
		v.Subscriptions = append(v.Subscriptions, Subscription{s})
	}
	return page("Subscriptions", "subscriptions.html", v, v.Problem), nil
}

// One is the page of a subscription.
type One struct {
	Subscription
	ParkedMessages []subscriptions.ParkedMessage // the first of them
	Done           string                        // the action that was done just now
	Count          int                           // of its messages
	Key            string
	Refused        *problem.Problem // of an action
	Form           Form             // of the action that was refused
}

// MoreParked reports whether there are more parked messages than the page shows.
func (v One) MoreParked() bool { return v.Parked > int64(len(v.ParkedMessages)) }

// Form has the values of a form.
type Form struct{ To, Reason string }

func (p pages) show(r *http.Request) (frame.Response, error) {
	v := One{}
	if done, _ := p.frame.DoneBefore(r); done != nil {
		v.Done = done.Get("action")
		v.Count, _ = strconv.Atoi(done.Get("count"))
	}
	return p.showOne(r, v)
}

func (p pages) showOne(r *http.Request, v One) (frame.Response, error) {
	path := "/subscriptions/" + operation.Segment(r.PathValue("name"))
	if err := p.client.Get(r.Context(), path, nil, &v.Subscription.Subscription); err != nil {
		return nil, err
	}
	if v.Parked > 0 {
		var parked subscriptions.ParkedMessages
		if err := p.client.Get(r.Context(), path+"/parked", nil, &parked); err != nil && v.Refused == nil {
			v.Refused = frame.ProblemOf(err)
		}
		v.ParkedMessages = parked.Parked[:min(len(parked.Parked), maxParked)]
	}
	v.Key = rand.Text()
	return page("Subscription "+v.Name, "subscription.html", v, v.Refused), nil
}

// act carries out the action of a form. A refusal is shown with the form.
func (p pages) act(r *http.Request) (frame.Response, error) {
	v := One{Form: Form{To: strings.TrimSpace(r.PostForm.Get("to")), Reason: strings.TrimSpace(r.PostForm.Get("reason"))}}
	count, err := p.post(r, v.Form)
	if err != nil {
		v.Refused = frame.ProblemOf(err)
		return p.showOne(r, v)
	}
	name, action := r.PathValue("name"), r.PathValue("action")
	if action == string(subscriptions.Delete) {
		return p.frame.Done("/subscriptions", url.Values{"deleted": {name}}), nil
	}
	return p.frame.Done("/subscriptions/"+url.PathEscape(name), url.Values{"action": {action}, "count": {strconv.Itoa(count)}}), nil
}

// post sends the action of a form to the API, and returns the number of parked messages that it
// changed.
func (p pages) post(r *http.Request, form Form) (int, error) {
	action, path := r.PathValue("action"), "/subscriptions/"+operation.Segment(r.PathValue("name"))
	body, key := map[string]string{}, r.PostForm.Get("key")
	switch action {
	case string(subscriptions.Pause):
		if form.Reason == "" {
			return 0, &problem.Problem{Status: http.StatusUnprocessableEntity, Detail: "a pause needs a reason", Remedy: "Say why: others see it at the subscription."}
		}
		body["reason"] = form.Reason
	case string(subscriptions.Rewind):
		body["to"] = form.To
	case string(subscriptions.Resume), string(subscriptions.ResumeAfterRemoved), string(subscriptions.Delete):
	case "retry", "drop":
		var changed subscriptions.ParkedCount
		err := p.client.Post(r.Context(), path+"/parked/"+action, key, body, &changed)
		return changed.Changed, err
	default:
		return 0, problem.NotFound("the console has no such page")
	}
	return 0, p.client.Post(r.Context(), path+"/"+action, key, body, nil)
}
