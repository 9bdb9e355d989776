// Package actionpage has the page for browsers of an action on many. It shows a preview of the selection, with
// a form that acts on exactly the objects that were shown, and then the result.
package actionpage

import (
	"context"
	"crypto/rand"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/replaypage"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// Action is an action on many. Its template gets a View.
type Action struct {
	Path      string // of its page
	Section   string // the page to which it belongs, and to which it returns
	Template  string
	ByGroup   bool // groups are selected; else a query or ids
	BackToAll bool // it returns to the page without the filter

	// Words of the template, each a block with that name.
	Title  string
	Name   string // a noun, such as discard
	Unit   string // the word for one object, such as failure
	Reason string // asks for the reason

	// Call does the action, or a dry run if the bounds of the selection say so.
	Call func(ctx context.Context, key operation.IdempotencyKey, s Selection) (Result, error)

	// report returns the block done of the template, which says what was done: its View has the response
	// as Found.
	report func(v View) (template.HTML, error)
}

// Selection has the objects that an operator has selected, or was shown.
type Selection struct {
	eventfilter.Choice
	operation.Bounds
	Groups []string
	Form   url.Values // has the fields of the action
}

// Result is the response of an action.
type Result struct {
	operation.Outcome
	Body any // for the template
}

// View has the data of a template.
type View struct {
	Action
	Filter      frame.Filter
	IDs, Groups []string
	Form        url.Values
	Found       any      // the response to a dry run; the zero value if Unread
	Unread      bool     // the dry run failed, so that the objects are not known
	Queues      []string // of Found, sorted
	Problem     *problem.Problem
	Changed     bool // the number is another than that which was shown
	Typed       bool // the operator must type the number
	Key         string
}

// Given returns a field of the form.
func (s Selection) Given(name string) string { return strings.TrimSpace(s.Form.Get(name)) }

// Given returns a field of the form.
func (v View) Given(name string) string { return v.selection().Given(name) }

// Return is the address of the page to which the action returns.
func (v View) Return() string {
	values := v.Filter.URL()
	if len(v.IDs) > 0 {
		values = url.Values{"view": {"list"}}
	}
	if len(values) == 0 || v.BackToAll {
		return v.Section
	}
	return v.Section + "?" + values.Encode()
}

// Register adds the pages of actions to a frame that has their templates.
func Register(f *frame.Frame, actions ...Action) error {
	for _, a := range actions {
		for block, word := range map[string]*string{"title": &a.Title, "name": &a.Name, "unit": &a.Unit, "reason": &a.Reason} {
			text, err := f.Block(a.Template, block, nil)
			if err != nil {
				return err
			}
			*word = string(text)
		}
		a.report = func(v View) (template.HTML, error) { return f.Block(a.Template, "done", v) }
		f.Handle("GET "+a.Path, a.preview)
		f.Handle("POST "+a.Path, func(r *http.Request) (frame.Response, error) { return a.act(f, r) })
	}
	return nil
}

// read reads the selection of a request.
func (a Action) read(r *http.Request, values url.Values) (View, error) {
	zone, _ := frame.ZoneOf(r)
	v := View{
		Action: a, Filter: frame.ReadFilter(values, zone, frame.AllTime), Form: values, Key: rand.Text(),
		IDs: replaypage.Lines(values["ids"]), Groups: replaypage.Lines(values["group"]),
	}
	what, nothing := a.Unit, v.Filter.Query == "" && len(v.IDs) == 0
	if a.ByGroup {
		what, nothing = "group", len(v.Groups) == 0
	}
	if nothing {
		return v, problem.BadRequest("no "+what+" is selected", "Go back and select some.")
	}
	return v, frame.NeedOperator(r, "a "+a.Name)
}

func (v View) selection() Selection {
	return Selection{Choice: eventfilter.Choice{Filter: v.Filter.API().Filter, IDs: v.IDs}, Groups: v.Groups, Form: v.Form}
}

// preview shows the objects that the action would change.
func (a Action) preview(r *http.Request) (frame.Response, error) {
	v, err := a.read(r, r.URL.Query())
	if err != nil {
		return nil, err
	}
	return v.show(r.Context(), nil)
}

// show shows the preview, and the problem of an action that was refused.
func (v View) show(ctx context.Context, refused *problem.Problem) (frame.Response, error) {
	s := v.selection()
	s.DryRun = true
	found, err := v.Call(ctx, operation.IdempotencyKey{}, s)
	if v.Unread = err != nil; v.Unread {
		refused = frame.ProblemOf(err)
	}
	v.Found, v.Queues, v.Typed, v.Problem = found.Body, slices.Sorted(maps.Keys(found.Queues)), found.Matched > frame.TypedAbove, refused
	shown := frame.Page{Title: v.Title, Section: v.Section, Template: v.Template, Styles: []string{"failures.css"}}
	if refused != nil {
		v.Changed, shown.Status = refused.Code == code.ExpectMismatch, refused.Status
	}
	shown.Data = v
	return shown, nil
}

// act does the action after its preview.
func (a Action) act(f *frame.Frame, r *http.Request) (frame.Response, error) {
	v, err := a.read(r, r.PostForm)
	if err != nil {
		return nil, err
	}
	s := v.selection()
	var mistake *problem.Problem
	if s.Bounds, s.UpTo, mistake = frame.Shown(r.PostForm, a.Unit, "a "+a.Name, a.Reason); mistake != nil {
		return v.show(r.Context(), mistake)
	}
	done, err := a.Call(r.Context(), frame.KeyOf(r), s)
	if err != nil {
		return v.show(r.Context(), frame.ProblemOf(err))
	}
	v.Found = done.Body
	report, err := a.report(v)
	if err != nil {
		return nil, err
	}
	return f.Done(v.Return(), url.Values{"report": {string(report)}}), nil
}

// Before returns the report of the action that led to a page; "": none did. It is signed, so that it
// is HTML of this process.
func Before(f *frame.Frame, r *http.Request) template.HTML {
	query, _ := f.DoneBefore(r)
	return template.HTML(query.Get("report"))
}
