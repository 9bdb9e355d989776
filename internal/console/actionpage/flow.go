package actionpage

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// Flow is an action with a page for its preview, and a form that carries out exactly the preview. S is the
// selection of an operator, and F the response to a preview.
type Flow[S, F any] struct {
	Path string // of the page, and of the form that acts

	// PreviewPath is where a form asks for the preview, if that is more than reading: the page itself has none,
	// and everybody may see it. "": the page shows it at once.
	PreviewPath string

	Role access.Role // that the action needs
	frame.Confirmation

	// Read reads the selection of a form, and whether there is one to preview. Its error replaces the page, but
	// a mistake of the form (code.InvalidValue) is shown there.
	Read func(r *http.Request, form url.Values) (selected S, isSelected bool, err error)

	// Preview finds the changes that the action would make.
	Preview func(ctx context.Context, selected S) (found F, number operation.Found, err error)

	// OnFirst reports whether a form acts on the first objects alone; nil: none does.
	OnFirst func(form url.Values) bool

	// Act makes the changes of the preview. The page shows its error.
	Act func(ctx context.Context, key operation.IdempotencyKey, selected S, shown frame.Confirmed) (frame.Response, error)

	// Page returns the page of a view, with any status.
	Page func(ctx context.Context, v Shown[S, F]) (frame.Page, error)
}

// Shown is the content of the page of an action.
type Shown[S, F any] struct {
	Selected  S
	Found     F    // the response to a preview; without one, the zero value
	Previewed bool // there is a response
	Unread    bool // it failed, so that the objects are not known
	Asked
}

// Asked is the part of a page that asks an operator to confirm the preview.
type Asked struct {
	Form    url.Values
	Matched int
	UpTo    int64
	Typed   bool // the operator must type the number
	Key     string
	Problem *problem.Problem
	Changed bool // the number is another than that which was shown
}

// Given returns a field of the form.
func (a Asked) Given(name string) string { return strings.TrimSpace(a.Form.Get(name)) }

// Add adds the pages of an action to a frame that has their templates.
func (a Flow[S, F]) Add(f *frame.Frame) {
	if a.PreviewPath == "" {
		f.Handle("GET "+a.Path, func(r *http.Request) (frame.Response, error) { return a.preview(r, r.URL.Query()) })
	} else {
		f.Handle("GET "+a.Path, a.form)
		f.Handle("POST "+a.PreviewPath, func(r *http.Request) (frame.Response, error) { return a.preview(r, r.PostForm) })
	}
	f.Handle("POST "+a.Path, a.act)
}

// form shows the form that selects.
func (a Flow[S, F]) form(r *http.Request) (frame.Response, error) {
	v, _, mistake, err := a.read(r, r.URL.Query())
	if err != nil {
		return nil, err
	}
	return a.show(r.Context(), v, false, mistake)
}

// preview shows the changes that the action would make.
func (a Flow[S, F]) preview(r *http.Request, form url.Values) (frame.Response, error) {
	if err := frame.Need(r, a.Role, a.Name); err != nil {
		return nil, err
	}
	v, isSelected, mistake, err := a.read(r, form)
	if err != nil {
		return nil, err
	}
	return a.show(r.Context(), v, isSelected, mistake)
}

// act does the action after its preview. If it is refused, the page shows why, and a new preview.
func (a Flow[S, F]) act(r *http.Request) (frame.Response, error) {
	if err := frame.Need(r, a.Role, a.Name); err != nil {
		return nil, err
	}
	v, isSelected, mistake, err := a.read(r, r.PostForm)
	if err != nil {
		return nil, err
	}
	var shown frame.Confirmed
	if mistake == nil {
		shown, mistake = a.Confirmation.Read(r.PostForm, a.OnFirst != nil && a.OnFirst(r.PostForm))
	}
	if mistake == nil {
		done, err := a.Act(r.Context(), frame.KeyOf(r), v.Selected, shown)
		if err == nil {
			return done, nil
		}
		mistake = frame.ProblemOf(err)
	}
	return a.show(r.Context(), v, isSelected, mistake)
}

// read reads the selection of a form, and returns a mistake in it.
func (a Flow[S, F]) read(r *http.Request, form url.Values) (v Shown[S, F], isSelected bool, mistake *problem.Problem, err error) {
	v.Form, v.Key = form, rand.Text()
	v.Selected, isSelected, err = a.Read(r, form)
	if found, is := errors.AsType[*problem.Problem](err); is && found.Code == code.InvalidValue {
		return v, isSelected, found, nil
	}
	return v, isSelected, nil, err
}

// show shows the page with a preview, and the problem of an action that was refused. After a refusal, a preview that
// is more than reading is made when it is asked for again.
func (a Flow[S, F]) show(ctx context.Context, v Shown[S, F], withPreview bool, refused *problem.Problem) (frame.Response, error) {
	if withPreview && (refused == nil || a.PreviewPath == "") {
		found, number, err := a.Preview(ctx, v.Selected)
		v.Found, v.Matched, v.UpTo, v.Typed = found, number.Matched, number.UpTo, number.Matched > frame.TypedAbove
		if v.Previewed, v.Unread = err == nil, err != nil; v.Unread {
			refused = frame.ProblemOf(err)
		}
	}
	if v.Problem = refused; refused != nil {
		v.Changed = refused.Code == code.ExpectMismatch
	}
	page, err := a.Page(ctx, v)
	if err == nil && refused != nil {
		page.Status, page.Refresh = refused.Status, 0
	}
	return page, err
}
