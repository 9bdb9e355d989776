// Package actionpage has the page for browsers of an action on many. It shows a preview of the selection, with
// a form that acts on exactly the objects that were shown, and then the result.
package actionpage

import (
	"context"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/replaypage"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
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

	// report returns the block done of the template, which reports the changes: its View has the response
	// as Found.
	report func(v View) (template.HTML, error)
}

// Selection has the objects that an operator has selected, or was shown.
type Selection struct {
	eventfilter.Choice
	operation.Bounds
	Groups []string
	Filter frame.Filter // of the page
	Form   url.Values   // has the fields of the action
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
	Found       any      // the response to a dry run, or the zero value if Unread
	Unread      bool     // the dry run failed, so that the objects are not known
	Queues      []string // of Found, sorted
	Asked
}

// Given returns a field of the form.
func (s Selection) Given(name string) string { return strings.TrimSpace(s.Form.Get(name)) }

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
		a.flow(f).Add(f)
	}
	return nil
}

// flow returns the flow of an action.
func (a Action) flow(f *frame.Frame) Flow[Selection, Result] {
	return Flow[Selection, Result]{
		Path: a.Path, Role: access.Operator,
		Confirmation: frame.Confirmation{Name: "a " + a.Name, Unit: a.Unit, Reason: a.Reason, Events: true},
		Read:         a.read,
		Preview: func(ctx context.Context, s Selection) (Result, operation.Found, error) {
			s.DryRun = true
			found, err := a.Call(ctx, operation.IdempotencyKey{}, s)
			return found, found.Outcome.Found, err
		},
		Act: func(ctx context.Context, key operation.IdempotencyKey, s Selection, shown frame.Confirmed) (frame.Response, error) {
			s.Bounds, s.UpTo = shown.Bounds, shown.UpTo
			done, err := a.Call(ctx, key, s)
			if err != nil {
				return nil, err
			}
			v := a.view(s, done)
			v.Form = s.Form
			report, err := a.report(v)
			return f.Done(v.Return(), url.Values{"report": {string(report)}}), err
		},
		Page: func(_ context.Context, v Shown[Selection, Result]) (frame.Page, error) {
			view := a.view(v.Selected, v.Found)
			view.Unread, view.Asked = v.Unread, v.Asked
			return frame.Page{Title: a.Title, Section: a.Section, Template: a.Template, Styles: []string{"failures.css"}, Data: view}, nil
		},
	}
}

// read reads the selection of a form.
func (a Action) read(r *http.Request, form url.Values) (s Selection, isSelected bool, err error) {
	zone, _ := frame.ZoneOf(r)
	s = Selection{Filter: frame.ReadFilter(form, zone, frame.AllTime), Groups: replaypage.Lines(form["group"]), Form: form}
	s.Choice = eventfilter.Choice{Filter: s.Filter.API().Filter, IDs: replaypage.Lines(form["ids"])}
	what, nothing := a.Unit, s.Query == "" && len(s.IDs) == 0
	if a.ByGroup {
		what, nothing = "group", len(s.Groups) == 0
	}
	if nothing {
		return s, false, problem.BadRequest("no "+what+" is selected", "Go back and select some.")
	}
	return s, true, nil
}

func (a Action) view(s Selection, found Result) View {
	return View{Action: a, Filter: s.Filter, IDs: s.IDs, Groups: s.Groups, Found: found.Body, Queues: slices.Sorted(maps.Keys(found.Queues))}
}

// Before returns the report of the action that led to a page; "": none did. It is signed, so that it
// is HTML of this process.
func Before(f *frame.Frame, r *http.Request) template.HTML {
	query, _ := f.DoneBefore(r)
	return template.HTML(query.Get("report"))
}
