package console

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
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

// discardView is the preview of a discard.
type discardView struct {
	Filter  frame.Filter
	IDs     []string
	Reason  string
	Found   failures.Discarded
	Queues  []string // of the failures, sorted
	Problem *problem.Problem
	Changed bool // the number of failures is another than that which was shown
	Typed   bool // the operator must type the number
	Key     string
}

// discardPreview shows the failures of a discard. Nothing is changed.
func (c failurePages) discardPreview(r *http.Request) (frame.Response, error) {
	if err := needOperator(r, "a discard"); err != nil {
		return nil, err
	}
	v := readDiscard(r, r.URL.Query())
	if v.Filter.Query == "" && len(v.IDs) == 0 {
		return nil, problem.BadRequest("no failure is selected", "Go back to the failures and select some.")
	}
	return c.showDiscard(r, v, nil)
}

func readDiscard(r *http.Request, values url.Values) discardView {
	zone, _ := frame.ZoneOf(r)
	v := discardView{Filter: frame.ReadFilter(values, zone, frame.AllTime), IDs: replaypage.Lines(values["ids"]), Reason: strings.TrimSpace(values.Get("reason")), Key: rand.Text()}
	return v
}

// Back returns the address of the failures.
func (v discardView) Back() string {
	if len(v.IDs) > 0 {
		return linkTo("/failures", url.Values{"view": {"list"}})
	}
	return linkTo("/failures", v.Filter.URL())
}

func (v discardView) request() failures.Discard {
	return failures.Discard{Choice: eventfilter.Choice{Filter: v.Filter.API().Filter, IDs: v.IDs}, Bounds: operation.Bounds{Reason: v.Reason}}
}

// showDiscard shows the preview, and the problem of a discard that was refused.
func (c failurePages) showDiscard(r *http.Request, v discardView, refused *problem.Problem) (frame.Response, error) {
	shown := frame.Page{Title: "Discard failures", Section: "/failures", Template: "failures_discard.html", Styles: []string{"failures.css"}}
	request := v.request()
	request.DryRun = true
	found, err := failures.DiscardFailures.Call(r.Context(), c.api, failures.DiscardInput{Body: request})
	if v.Found = found.Body; err != nil {
		v.Problem = frame.ProblemOf(err)
		shown.Status = v.Problem.Status
	} else if refused != nil {
		v.Problem, shown.Status = refused, refused.Status
	}
	v.Queues, v.Typed = slices.Sorted(maps.Keys(v.Found.Queues)), v.Found.Matched > frame.TypedAbove
	shown.Data = v
	return shown, nil
}

// discard discards failures after their preview.
func (c failurePages) discard(r *http.Request) (frame.Response, error) {
	v := readDiscard(r, r.PostForm)
	request := v.request()
	var mistake *problem.Problem
	if request.Bounds, request.UpTo, mistake = frame.Shown(r.PostForm, "failure", "a discard", "Say why nothing more is to be done."); mistake != nil {
		return c.showDiscard(r, v, mistake)
	}
	done, err := failures.DiscardFailures.Call(r.Context(), c.api, failures.DiscardInput{IdempotencyKey: frame.KeyOf(r), Body: request})
	if err != nil {
		refused := frame.ProblemOf(err)
		v.Changed = refused.Code == code.ExpectMismatch
		return c.showDiscard(r, v, refused)
	}
	return c.Done(v.Back(), url.Values{
		"discarded": {strconv.Itoa(done.Body.Done)}, "missing": {strconv.Itoa(done.Body.Missing)}, "parked": {parkedText(done.Body.Parked)},
	}), nil
}

// discardDone is the result of a discard, for the next page.
type discardDone struct {
	Failures, Missing int
	Parked            []failures.ParkedCopies
}

func parkedText(queues []failures.ParkedCopies) string {
	var parts []string
	for _, p := range queues {
		parts = append(parts, fmt.Sprintf("%d %s", p.Messages, p.Queue))
	}
	return strings.Join(parts, "\n")
}

// discardDone returns the result of the discard that led to the page; nil: none did.
func (c failurePages) discardDone(r *http.Request) *discardDone {
	query, _ := c.DoneBefore(r)
	n, err := strconv.Atoi(query.Get("discarded"))
	if err != nil {
		return nil
	}
	done := &discardDone{Failures: n}
	done.Missing, _ = strconv.Atoi(query.Get("missing"))
	for _, line := range replaypage.Lines(query["parked"]) {
		count, queue, _ := strings.Cut(line, " ")
		if n, err := strconv.Atoi(count); err == nil {
			done.Parked = append(done.Parked, failures.ParkedCopies{Queue: queue, Messages: n})
		}
	}
	return done
}
