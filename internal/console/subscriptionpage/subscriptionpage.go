// Package subscriptionpage has the pages for browsers that list subscriptions, and pause, resume,
// rewind and delete them, and change their upcasts.
package subscriptionpage

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
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

// Why is why nothing is delivered; "": something is.
func (s Subscription) Why() string { return s.Waiting.Text(s.WaitingError) }

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
	found, err := subscriptions.ListSubscriptions.Call(r.Context(), p.api, struct{}{})
	if err != nil {
		v.Problem = frame.ProblemOf(err)
	}
	for _, s := range found.Body.Subscriptions {
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
type Form struct{ To, Reason, Upcast string }

func (p pages) show(r *http.Request) (frame.Response, error) {
	v := One{}
	if done, _ := p.frame.DoneBefore(r); done != nil {
		v.Done = done.Get("action")
		v.Count, _ = strconv.Atoi(done.Get("count"))
	}
	return p.showOne(r, v)
}

func (p pages) showOne(r *http.Request, v One) (frame.Response, error) {
	in := subscriptions.NameInput{Name: r.PathValue("name")}
	found, err := subscriptions.GetSubscription.Call(r.Context(), p.api, in)
	if err != nil {
		return nil, frame.Unknown(err, "Look for it on the page of all subscriptions.")
	}
	if v.Subscription = (Subscription{found.Body}); v.Parked > 0 {
		parked, err := subscriptions.ListParked.Call(r.Context(), p.api, in)
		if err != nil && v.Refused == nil {
			v.Refused = frame.ProblemOf(err)
		}
		list := parked.Body.Parked
		v.ParkedMessages = list[:min(len(list), maxParked)]
	}
	v.Key = rand.Text()
	return page("Subscription "+v.Name, "subscription.html", v, v.Refused), nil
}

// act carries out the action of a form. A refusal is shown with the form.
func (p pages) act(r *http.Request) (frame.Response, error) {
	v := One{Form: Form{To: strings.TrimSpace(r.PostForm.Get("to")), Reason: strings.TrimSpace(r.PostForm.Get("reason")), Upcast: strings.TrimSpace(r.PostForm.Get("upcast"))}}
	count, err := p.do(r, v.Form)
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

// do does the action of a form, and returns the number of parked messages that it changed.
func (p pages) do(r *http.Request, form Form) (changed int, err error) {
	ctx, name, key := r.Context(), subscriptions.NameInput{Name: r.PathValue("name")}, frame.KeyOf(r)
	act, parked := subscriptions.ActInput{IdempotencyKey: key, NameInput: name}, subscriptions.PositionsInput{IdempotencyKey: key, NameInput: name}
	switch action := r.PathValue("action"); action {
	case string(subscriptions.Pause):
		if form.Reason == "" {
			return 0, &problem.Problem{Code: code.InvalidValue, Detail: "a pause needs a reason", Remedy: "Say why: others see it at the subscription."}
		}
		in := subscriptions.PauseInput{IdempotencyKey: key, NameInput: name}
		in.Body.Reason = form.Reason
		_, err = subscriptions.PauseSubscription.Call(ctx, p.api, in)
	case string(subscriptions.Rewind):
		in := subscriptions.RewindInput{IdempotencyKey: key, NameInput: name}
		in.Body.To = form.To
		_, err = subscriptions.RewindSubscription.Call(ctx, p.api, in)
	case "upcast":
		in := subscriptions.ConfigureInput{IdempotencyKey: key, NameInput: name}
		in.Body.Upcast = &form.Upcast
		_, err = subscriptions.ConfigureSubscription.Call(ctx, p.api, in)
	case string(subscriptions.Resume):
		_, err = subscriptions.ResumeSubscription.Call(ctx, p.api, act)
	case string(subscriptions.ResumeAfterRemoved):
		_, err = subscriptions.SkipRemoved.Call(ctx, p.api, act)
	case string(subscriptions.Delete):
		_, err = subscriptions.DeleteSubscription.Call(ctx, p.api, subscriptions.DeleteInput{IdempotencyKey: key, NameInput: name})
	case "retry", "drop":
		change := subscriptions.RetryParked
		if action == "drop" {
			change = subscriptions.DropParked
		}
		done, err := change.Call(ctx, p.api, parked)
		return done.Body.Changed, err
	default:
		err = problem.NotFound("the console has no such page")
	}
	return 0, err
}
