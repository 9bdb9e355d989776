package triagepage

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/replaypage"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// resolveView is the preview of a resolution of several groups.
type resolveView struct {
	Filter  frame.Filter
	IDs     []string // of the groups that were selected
	Reason  string
	Found   failures.GroupsResolved
	Problem *problem.Problem
	Changed bool // the number of failures is another than that which was shown
	Typed   bool // the operator must type the number
	Key     string
}

// Back returns the address of the failures.
func (v resolveView) Back() string {
	if values := v.Filter.URL(); len(values) > 0 {
		return "/failures?" + values.Encode()
	}
	return "/failures"
}

// Path returns the address of the page of a group.
func (resolveView) Path(id string) string { return Path(id) }

func (v resolveView) request() failures.Resolve {
	return failures.Resolve{Choice: eventfilter.Choice{Filter: v.Filter.API().Filter}, Groups: v.IDs, Bounds: operation.Bounds{Reason: v.Reason}}
}

func readResolve(r *http.Request, values url.Values) (resolveView, error) {
	zone, _ := frame.ZoneOf(r)
	v := resolveView{
		Filter: frame.ReadFilter(values, zone, frame.AllTime), IDs: replaypage.Lines(values["group"]),
		Reason: strings.TrimSpace(values.Get("reason")), Key: rand.Text(),
	}
	if len(v.IDs) == 0 {
		return v, problem.BadRequest("no group is selected", "Go back to the failures and select some.")
	}
	return v, nil
}

// resolvePreview shows the groups of a resolution. Nothing is changed.
func (p Pages) resolvePreview(r *http.Request) (frame.Response, error) {
	v, err := readResolve(r, r.URL.Query())
	if err != nil {
		return nil, err
	}
	return p.showResolve(r, v, nil)
}

// showResolve shows the preview, and the problem of a resolution that was refused.
func (p Pages) showResolve(r *http.Request, v resolveView, refused *problem.Problem) (frame.Response, error) {
	shown := frame.Page{Title: "Resolve groups of failures", Section: "/failures", Template: "failures_resolve.html", Styles: []string{"failures.css"}}
	request := v.request()
	request.DryRun = true
	found, err := failures.ResolveFailures.Call(r.Context(), p.API, failures.ResolveInput{Body: request})
	if err != nil {
		return nil, err
	}
	v.Found = found.Body
	if v.Problem = refused; refused != nil {
		shown.Status = refused.Status
	}
	v.Typed = v.Found.Matched > frame.TypedAbove
	shown.Data = v
	return shown, nil
}

// resolveSelected resolves groups after their preview. Failures that came after it bring their
// groups back.
func (p Pages) resolveSelected(r *http.Request) (frame.Response, error) {
	v, err := readResolve(r, r.PostForm)
	if err != nil {
		return nil, err
	}
	request, mistake := v.request(), (*problem.Problem)(nil)
	request.Bounds, request.UpTo, mistake = shown(r.PostForm)
	if mistake != nil {
		return p.showResolve(r, v, mistake)
	}
	resolved, err := failures.ResolveFailures.Call(r.Context(), p.API, failures.ResolveInput{IdempotencyKey: frame.KeyOf(r), Body: request})
	if err != nil {
		refused := frame.ProblemOf(err)
		v.Changed = refused.Code == code.ExpectMismatch
		return p.showResolve(r, v, refused)
	}
	done := resolved.Body
	values := url.Values{
		"groups": {strconv.Itoa(len(done.Resolved))}, "open": {strconv.Itoa(len(done.Open))},
		"failures": {strconv.Itoa(done.Done)}, "missing": {strconv.Itoa(done.Missing)},
	}
	for _, parked := range done.Parked {
		values.Add("parked", strconv.Itoa(parked.Messages)+" "+parked.Queue)
	}
	return p.Frame.Done(v.Back(), values), nil
}

// shown returns the bounds of a resolution, from its form.
func shown(form url.Values) (operation.Bounds, int64, *problem.Problem) {
	return frame.Shown(form, "failure", "a resolution", "Say why nothing more is to be done.")
}

// Resolved is the result of the form that led to the page of failures.
type Resolved struct {
	Groups, Open, Failures, Missing int // Open groups have other failures
	Parked                          []failures.ParkedCopies
}

// ResolvedBefore returns the result of the form that led to the page; nil: none did.
func ResolvedBefore(f *frame.Frame, r *http.Request) *Resolved {
	query, _ := f.DoneBefore(r)
	if query.Get("groups") == "" {
		return nil
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(query.Get(name))
		return n
	}
	done := &Resolved{Groups: number("groups"), Open: number("open"), Failures: number("failures"), Missing: number("missing")}
	for _, line := range query["parked"] {
		count, queue, _ := strings.Cut(line, " ")
		if n, err := strconv.Atoi(count); err == nil {
			done.Parked = append(done.Parked, failures.ParkedCopies{Queue: queue, Messages: n})
		}
	}
	return done
}
